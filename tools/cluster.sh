#!/usr/bin/env bash
# cluster.sh up|down: the cluster of docker/cluster-compose.yml, or of docker/cluster-desktop.yml where Docker runs in a
# machine of its own. up returns once it stands and prints where; down leaves nothing.
#
# CLUSTER_FILE  the file, if the choice is wrong
# REDIS_IMAGE, CLUSTER_NET: see the file
set -euo pipefail
cd "$(dirname "$0")/.."

if ! docker info >/dev/null 2>&1; then
	echo 'cluster: Docker does not answer: is it installed and started, and may you use it?' >&2
	exit 1
fi

file=${CLUSTER_FILE:-docker/cluster-compose.yml}
if [[ -z ${CLUSTER_FILE:-} && $(docker info --format '{{.OperatingSystem}}') == *Desktop* ]]; then
	file=docker/cluster-desktop.yml
fi
project=shardlimit-cluster
compose=(docker-compose)
if docker compose version >/dev/null 2>&1; then compose=(docker compose); fi
compose+=(-p "$project" -f "$file")

down() { "${compose[@]}" down --volumes --remove-orphans --timeout 1; }

# formed waits for the container that forms the cluster, which ends with status 0 when it's done.
formed() {
	local id
	id=$(docker ps -aq --filter "label=com.docker.compose.project=$project" --filter label=com.docker.compose.service=form)
	[[ $(docker wait "$id") == 0 ]] && return
	docker logs "$id" >&2
	return 1
}

addresses() {
	if [[ $file == *desktop* ]]; then
		printf 'localhost:%s\n' 22001 22002 22003
	else
		printf "${CLUSTER_NET:-172.30.77}.%s:6379\n" 11 12 13
	fi | paste -sd,
}

case ${1:-} in
up)
	if ! { "${compose[@]}" up -d && formed; }; then
		echo 'cluster: it was not formed' >&2
		down
		exit 1
	fi
	echo "The cluster stands. Clients: --redis $(addresses)"
	;;
down) down ;;
*)
	echo 'usage: cluster.sh up|down' >&2
	exit 2
	;;
esac
