#!/usr/bin/env bash
# apt-install.sh PACKAGE...: install Debian packages unattended, starting no service. Needs root.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

# What would start a package's service asks this program first: 101 means no.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

for wait in 2 10 0; do
	if apt-get -qq update && apt-get -qqy -o DPkg::Lock::Timeout=120 install --no-install-recommends "$@"; then
		exit 0
	fi
	sleep "$wait"
done </dev/null >&2
echo "apt-install: could not install $*" >&2
exit 1
