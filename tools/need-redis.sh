#!/usr/bin/env bash
# need-redis.sh [-n]: see to a server for the tests, which start it themselves, on loopback or in containers.
#
# Where there is none it is installed, if that takes no more than root and apt-get; else the tests use Docker, where it
# answers. With -n nothing is installed, and the lack of both is said instead: tests that need a server have skipped
# themselves.
#
# REDISTEST_LAUNCHER  containers: it is Docker that is needed
# REDISTEST_SERVER    the server to use: a binary, or a folder that packages were unpacked into
# REDISTEST_IMAGE     the image to run in containers; redis:8 unless set
# REDISTEST           must: to have none is an error
set -euo pipefail

image=${REDISTEST_IMAGE:-redis:8}
docker_answers() { docker info >/dev/null 2>&1; }

if [[ ${REDISTEST_LAUNCHER:-} == containers ]]; then
	docker_answers && exit 0
	echo "need-redis: the tests are to run in containers of $image, and Docker does not answer" >&2
	exit 1
fi

if [[ -n ${REDISTEST_SERVER:-} ]]; then
	[[ -x $REDISTEST_SERVER || -x $REDISTEST_SERVER/usr/bin/redis-server ]] && exit 0
	echo "need-redis: no server at $REDISTEST_SERVER" >&2
	exit 1
fi

installed() { command -v redis-server || command -v valkey-server; } >/dev/null

if installed; then exit 0; fi
if [[ ${1:-} != -n && $EUID == 0 ]] && command -v apt-get >/dev/null; then
	"$(dirname "$0")/apt-install.sh" redis-server || true # without one, most tests still run
	if installed; then exit 0; fi
fi

advice="install redis-server or valkey-server (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis)"
if [[ ${REDISTEST_LAUNCHER:-} != processes ]] && docker_answers; then
	if [[ ${1:-} != -n ]]; then
		echo "No redis-server here: the tests on a cluster run in containers of $image."
		exit 0
	fi
	docker image inspect "$image" >/dev/null 2>&1 && exit 0 # they have: whatever needed it pulled it
	advice+=", or see to it that docker pull $image works"
else
	advice+=", or start Docker"
fi
if [[ ${REDISTEST:-} == must ]]; then
	echo "need-redis: REDISTEST=must, and there is no server: $advice" >&2
	exit 1
fi
if [[ ${1:-} == -n ]]; then
	echo "No redis-server here: the tests on a cluster were skipped. To run them, $advice."
fi
