#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: PHP: generators, a built-in web server as child and a client of it, serialised state
# Needs: php-cli
#SBATCH --job-name=php --ntasks=1 --output=log
set -eu
cat >server.php <<'PHP'
<?php
parse_str($_SERVER['QUERY_STRING'], $q);
echo json_encode(['n' => (int)$q['n'], 'hash' => hash('xxh128', str_repeat($q['n'], 1000)), 'host' => substr_count($_SERVER['HTTP_HOST'], ':')]);
PHP
cat >client.php <<'PHP'
<?php
function walk(int $seed): Generator {
	mt_srand($seed);
	while (true) yield mt_rand(0, 1 << 30);
}
echo "asking\n";
$walk = walk(5);
$state = ['sum' => 0, 'seen' => []];
for ($turn = 1; $turn <= 60; $turn++) {
	$n = $walk->current() % 10007;
	$walk->next();
	$answer = json_decode(file_get_contents("http://127.0.0.1:8396/?n=$n"), true);
	$state['sum'] = ($state['sum'] * 31 + $answer['n']) % 1000000007;
	$state['seen'][] = $answer['hash'];
	file_put_contents('state', serialize($state));
	$state = unserialize(file_get_contents('state'));
	if ($turn % 10 == 0) echo "turn $turn: {$state['sum']}\n";
	usleep(90000);
}
echo hash('sha256', implode($state['seen'])), "\n";
PHP
php -S 127.0.0.1:8396 server.php >/dev/null 2>&1 &
until grep -q ':20CC 00000000:0000 0A' /proc/net/tcp; do sleep 0.05; done # 8396 is being listened on
php client.php
kill %1
wait %1 || echo "server ended with $?"
sha256sum state
