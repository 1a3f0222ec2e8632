#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: OpenLDAP: a directory on LMDB, entries added, changed, renamed and searched by pages, a search that stays and is told of changes
# Needs: slapd ldap-utils
#SBATCH --job-name=slapd-directory --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
mkdir "$dir/base"
cat >"$dir/conf" <<C
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
pidfile $dir/pid
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload syncprov
threads 4
database mdb
maxsize 50000000
suffix "dc=example,dc=org"
rootdn "cn=admin,dc=example,dc=org"
rootpw secret
directory $dir/base
index objectClass,uid eq
overlay syncprov
C
uri=ldap://127.0.0.1:18480
/usr/sbin/slapd -h $uri -f "$dir/conf" -d 0 2>/dev/null &
server=$!
who=(-x -H $uri -D cn=admin,dc=example,dc=org -w secret)
until ldapsearch -x -H $uri -b '' -s base >/dev/null 2>&1; do sleep 0.1; done
echo "serving"
printf 'dn: dc=example,dc=org\nobjectClass: domain\ndc: example\n\ndn: ou=people,dc=example,dc=org\nobjectClass: organizationalUnit\nou: people\n' | ldapadd "${who[@]}" >/dev/null
ldapsearch "${who[@]}" -LLL -E '!sync=rp' -b ou=people,dc=example,dc=org '(uid=*)' uid description >changes 2>/dev/null &
watcher=$!
for i in $(seq 80); do
	printf 'dn: uid=u%d,ou=people,dc=example,dc=org\nobjectClass: inetOrgPerson\nuid: u%d\ncn: Person %d\nsn: %d\ndescription: %d\n\n' "$i" "$i" "$i" $((i % 9)) $((i * i))
	sleep 0.1
done | ldapadd "${who[@]}" >/dev/null &
adder=$!
for i in $(seq 30); do
	until ldapsearch "${who[@]}" -LLL -b "uid=u$i,ou=people,dc=example,dc=org" -s base uid >/dev/null 2>&1; do sleep 0.05; done
	printf 'dn: uid=u%d,ou=people,dc=example,dc=org\nchangetype: modify\nreplace: description\ndescription: changed %d\n' "$i" "$i" | ldapmodify "${who[@]}" >/dev/null
	if ((i % 5 == 0)); then
		ldapmodrdn "${who[@]}" -r "uid=u$i,ou=people,dc=example,dc=org" "uid=renamed$i"
		ldapcompare "${who[@]}" "uid=renamed$i,ou=people,dc=example,dc=org" "sn:$((i % 9))" || true
		echo "round $i"
	fi
done
wait $adder
ldapsearch "${who[@]}" -LLL -E pr=7/noprompt -b dc=example,dc=org '(|(sn=3)(description=changed*))' uid sn description 2>/dev/null | grep -v '^#' | sort | sha256sum
ldapsearch "${who[@]}" -LLL -b dc=example,dc=org '(uid=*)' dn | grep -c '^dn:'
until grep -q 'uid: u80' changes; do sleep 0.05; done
kill $watcher
kill $server
wait || true
grep '^uid: ' changes | sort | uniq -c | sha256sum
rm -r "$dir" changes
