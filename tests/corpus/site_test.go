// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package corpus

// siteParts are the services of a site beside Slurm, by their names in a program's line "# Site: …": a script that root
// runs on ctl, outside of all jobs, and a script that root runs on each host.
var siteParts = map[string]struct{ onController, onEach string }{
	"redis": {onController: `redis-server --daemonize yes --protected-mode no --save '' --logfile /var/log/redis.log`},
	"postgres": {onController: `install -d -o postgres /srv/postgres; bin=$(echo /usr/lib/postgresql/*/bin)
runuser -u postgres -- $bin/initdb -D /srv/postgres -A trust >/dev/null
echo 'host all all 10.77.0.0/16 trust' >>/srv/postgres/pg_hba.conf
runuser -u postgres -- $bin/pg_ctl -D /srv/postgres -l /srv/postgres/log -w -o "-h '*' -k /tmp" start >/dev/null`},
	"s3": {onController: `setsid moto_server -H 0.0.0.0 -p 9000 </dev/null >/var/log/moto.log 2>&1 &
curl -sS -o /dev/null --retry 60 --retry-connrefused --retry-delay 1 localhost:9000`},
	// The example of Slurm's manual for crun without root, but without cgroups, which hosts of a test cluster do not
	// mount and crun wants to see, and with a folder below /tmp in the place of /run/user/UID, which no host has.
	"containers": {onEach: `cat >/etc/slurm/oci-run <<'X'
#!/bin/sh
exec unshare --map-current-user --keep-caps --mount --cgroup sh -c 'mount -t cgroup2 cgroup /sys/fs/cgroup && exec "$@"' sh \
	crun --cgroup-manager=disabled --rootless=true --root="$1" run --bundle="$2" "$3"
X
chmod 755 /etc/slurm/oci-run
cat >/etc/slurm/oci.conf <<'X'
EnvExclude="^(SLURM_CONF|SLURM_CONF_SERVER)="
RunTimeEnvExclude="^(SLURM_CONF|SLURM_CONF_SERVER)="
RunTimeQuery="crun --rootless=true --root=/tmp/crun-%U/ state %n.%u.%j.%s.%t"
RunTimeKill="crun --rootless=true --root=/tmp/crun-%U/ kill -a %n.%u.%j.%s.%t"
RunTimeDelete="crun --rootless=true --root=/tmp/crun-%U/ delete --force %n.%u.%j.%s.%t"
RunTimeRun="exec /etc/slurm/oci-run /tmp/crun-%U/ %b %n.%u.%j.%s.%t"
X`},
}
