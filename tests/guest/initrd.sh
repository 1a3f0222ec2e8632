#!/bin/sh
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# usage: initrd.sh KERNEL_FOLDER SCRATCH INITRD [MODULE...]
# Makes an initial file system: busybox, the modules for what the guest sees of the
# machine and those that are named, and an init that goes over to the tree shared as
# "tree", writes kept in memory, and to /guest/init.sh there.
set -eu
umask 022
kernel=$1
scratch=$2
initrd=$3
shift 3
mkdir -p "$scratch/bin" "$scratch/tree" "$scratch/memory" "$scratch/root"
cp /bin/busybox "$scratch/bin/busybox"
ln -s busybox "$scratch/bin/sh"
modules=$(echo "$kernel"/lib/modules/*)

# with NAME: a module, after those that it needs; each once.
with() {
	file=$(cd "$modules" && find . -name "$1.ko" | sed 's,^\./,,')
	[ -n "$file" ] || { echo "initrd: no module $1" >&2; exit 1; }
	for m in $(awk -F: -v f="$file" '$1 == f { n = split($2, d, " "); for (i = n; i > 0; i--) print d[i]; print f }' "$modules/modules.dep"); do
		[ -e "$scratch/${m##*/}" ] || echo "${m##*/}"
		cp "$modules/$m" "$scratch/"
	done
}
# Written into the package without it; depmod busybox has one for any folder.
[ -s "$modules/modules.dep" ] || busybox depmod -b "$kernel" "${modules##*/}"
for m in virtio_pci 9pnet_virtio 9p overlay "$@"; do
	with "$m"
done >"$scratch/modules"

cat >"$scratch/init" <<'INIT'
#!/bin/sh
set -e
/bin/busybox --install -s /bin
for m in $(cat /modules); do
	insmod "/$m"
done
options=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o "ro,cache=loose,$options" tree /tree
mount -t tmpfs memory /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/tree,upperdir=/memory/upper,workdir=/memory/work overlay /root
mkdir -p /root/guest /root/usr/lib/modules
mount -t 9p -o "ro,cache=loose,$options" kernelmodules /root/usr/lib/modules
mount -t 9p -o "cache=none,$options" guest /root/guest
exec switch_root /root /bin/sh /guest/init.sh
INIT
chmod 755 "$scratch/init"
cd "$scratch"
find . | cpio -o -H newc --quiet | gzip -1 >"$initrd"
