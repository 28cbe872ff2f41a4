#!/usr/bin/env bash
# need-redis.sh [-n]: see to a server for the tests, which start it themselves on loopback.
#
# Where there is none it is installed, if that takes no more than root and apt-get. With -n nothing is installed, and
# its lack is said instead: tests that need it have skipped themselves.
#
# REDISTEST_SERVER  the server to use: a binary, or a folder that packages were unpacked into
# REDISTEST         must: to have none is an error
set -euo pipefail

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
if docker info >/dev/null 2>&1; then
	advice+="; Docker is usable, but these tests start no server in it"
fi
if [[ ${REDISTEST:-} == must ]]; then
	echo "need-redis: REDISTEST=must, and there is no server: $advice" >&2
	exit 1
fi
if [[ ${1:-} == -n ]]; then
	echo "No redis-server here: the tests on a cluster were skipped. To run them, $advice."
fi
