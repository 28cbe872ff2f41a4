#!/usr/bin/env bash
# server-root.sh SUITE NAME FOLDER: put the server of another Debian suite into a folder, with all that it needs to run.
#
# SUITE is trixie, say, and NAME redis or valkey. The server is FOLDER/usr/bin/redis-server then, which runs by the
# folder's own loader and libraries: `make test SERVER=FOLDER`, or server-image.sh makes an image of it. Nothing is
# installed on this machine. It takes Debian's apt, whose mirror it uses, and no root.
set -euo pipefail
suite=$1 name=$2 folder=$3

mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 '/debian/*$') || {
	echo "server-root: this machine's apt knows no Debian mirror" >&2
	exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# An apt of its own, on a machine that has nothing installed yet: so what it downloads is the server's whole closure.
mkdir -p "$work"/{lists/partial,archives/partial}
touch "$work/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror%/} $suite main" >"$work/sources"
apt() {
	apt-get -qq -o Dir::State="$work" -o Dir::State::status="$work/status" -o Dir::Cache="$work" \
		-o Dir::Etc::sourcelist="$work/sources" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
		-o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none -o Debug::NoLocking=true "$@" >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		exit 1
	}
}
apt update
apt install -y --no-install-recommends --download-only "$name-server" "$name-tools" busybox-static

# merged makes the folders that a Debian system has links for.
merged() {
	mkdir -p "$1"/usr/{bin,lib,lib64}
	for d in bin lib lib64; do ln -s "usr/$d" "$1/$d"; done
	ln -s bin "$1/usr/sbin"
	ln -s usr/sbin "$1/sbin"
}
all=$work/all
merged "$all"
for deb in "$work"/archives/*.deb; do
	dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$all" --keep-directory-symlink
done

# Of all that, the two programs, a shell for scripts, and the libraries that the loader says they load.
rm -rf "$folder"
merged "$folder"
mkdir -p "$folder"/{data,tmp,etc}
chmod 1777 "$folder"/{data,tmp}
echo 'root:x:0:0:root:/data:/bin/sh' >"$folder/etc/passwd"
loader=$(echo "$all"/lib*/ld-linux-*.so.*)
libs=$(echo "$all"/usr/lib/*-linux-gnu*)
cp -L "$loader" "$folder${loader#"$all"}"
mkdir "$folder${libs#"$all"}"
for program in server cli; do
	cp -L "$all/usr/bin/$name-$program" "$folder/usr/bin/redis-$program"
	"$loader" --library-path "$libs" --list "$all/usr/bin/$name-$program" | sed -n 's/.*=> \(.*\) (.*/\1/p'
done | sort -u | grep -vxF "$loader" | while read -r lib; do
	[[ $lib == "$libs"/* ]] || { echo "server-root: not in $suite: $lib" >&2; exit 1; }
	cp -L "$lib" "$folder${lib#"$all"}"
done
cp "$all/usr/bin/busybox" "$folder/usr/bin/"
for command in sh sleep cat; do ln -s busybox "$folder/usr/bin/$command"; done

"$folder${loader#"$all"}" --library-path "$folder${libs#"$all"}" "$folder/usr/bin/redis-server" --version
