#!/bin/sh
# form.sh HOST:PORT...: make a cluster of these nodes, one replica for each primary, and return once each node serves
# it. If the first is in one already, only wait. It runs in a server's image, so it needs no more than sh and redis-cli.
set -eu

at() { # at HOST:PORT COMMAND...
	node=$1
	shift
	redis-cli -h "${node%:*}" -p "${node#*:}" "$@" 2>/dev/null || true
}

wait_until() { # wait_until CHECK HOST:PORT: until the check holds for the node
	tries=300
	until "$1" "$2"; do
		tries=$((tries - 1))
		if [ "$tries" = 0 ]; then
			echo "form: $2 is not $1" >&2
			exit 1
		fi
		sleep 0.1
	done
}

answering() { [ "$(at "$1" ping)" = PONG ]; }

alone() { case $(at "$1" cluster info) in *cluster_known_nodes:1[!0-9]*) true ;; *) false ;; esac }

# serving: it sees every slot served, and tells clients of all nodes and what they are called. Ids are what has 40
# characters.
serving() {
	case $(at "$1" cluster info) in *cluster_state:ok*cluster_slots_ok:16384*) ;; *) return 1 ;; esac
	known=0
	for word in $(at "$1" cluster slots); do
		if [ "$word" = "?" ]; then return 1; fi
		if [ ${#word} = 40 ]; then known=$((known + 1)); fi
	done
	[ "$known" = "$nodes" ]
}

set -f # a word may be "?"
nodes=$#
for node; do wait_until answering "$node"; done
if alone "$1"; then redis-cli --cluster create "$@" --cluster-replicas 1 --cluster-yes; fi
for node; do wait_until serving "$node"; done
