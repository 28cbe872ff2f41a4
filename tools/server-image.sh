#!/usr/bin/env bash
# server-image.sh FOLDER IMAGE: make a local image of what server-root.sh made, out of no registry.
set -euo pipefail
folder=$1 image=$2
previous=$(docker image ls --quiet "$image")

# Like the usual images of Redis: its arguments are the server's flags, its data is on a volume.
tar -C "$folder" --owner=0 --group=0 --numeric-owner -c . | docker import \
	--message "$image of $(basename "$folder")" \
	--change 'ENV PATH=/usr/bin' \
	--change 'WORKDIR /data' \
	--change 'VOLUME /data' \
	--change 'EXPOSE 6379' \
	--change 'ENTRYPOINT ["redis-server"]' \
	--change 'CMD ["--protected-mode", "no", "--save", ""]' \
	- "$image" >/dev/null

# The one before has no name now, and goes unless a container still runs it.
if [[ -n $previous ]]; then docker image rm "$previous" >/dev/null 2>&1 || true; fi
