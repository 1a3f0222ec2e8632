#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: srun --container: an OCI bundle of busybox, in which a shell works with the image's own tools, its /tmp and a mounted folder
# Needs: crun busybox-static
# Site: containers
#SBATCH --job-name=oci-container --ntasks=1 --output=log
set -eu
mkdir -p unpacked/rootfs/bin unpacked/rootfs/proc unpacked/rootfs/dev unpacked/rootfs/sys unpacked/rootfs/tmp unpacked/rootfs/data results
cp /bin/busybox unpacked/rootfs/busybox
for tool in $(/bin/busybox --list); do ln -sf ../busybox "unpacked/rootfs/bin/$tool"; done
cat >unpacked/rootfs/work <<'SH'
echo "in the container, with $(ls /bin | wc -l) tools"
digest=begin
mkdir -p /tmp/scratch
for turn in $(seq 60); do
	digest=$(echo "$digest $turn" | sha256sum | cut -d ' ' -f 1)
	echo "$digest" >>/data/digests
	echo "$digest" >/tmp/scratch/$turn
	if [ $((turn % 20)) = 0 ]; then echo "turn $turn $digest"; fi
	sleep 0.1
done
cat /tmp/scratch/* | sort | sha256sum
ls /tmp/scratch | wc -l
SH
cat >unpacked/config.json <<X
{"ociVersion": "1.0.0", "root": {"path": "rootfs"},
 "process": {"user": {"uid": 0, "gid": 0}, "args": ["sh"], "env": ["PATH=/bin"], "cwd": "/"},
 "mounts": [
  {"destination": "/proc", "type": "proc", "source": "proc"},
  {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
  {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
  {"destination": "/data", "type": "bind", "source": "$PWD/results", "options": ["rbind", "rw"]}],
 "linux": {"namespaces": [{"type": "user"}, {"type": "pid"}, {"type": "mount"}],
  "uidMappings": [{"containerID": 0, "hostID": $(id -u), "size": 1}], "gidMappings": [{"containerID": 0, "hostID": $(id -g), "size": 1}]}}
X
echo "the bundle is made"
srun --container="$PWD/unpacked" sh /work
sha256sum results/digests
rm -rf unpacked
