#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: openssl: chained encryption, key derivation, signatures and a TLS session on localhost
# Needs: openssl
#SBATCH --job-name=openssl-crypto --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
echo "encrypting"
key=$(printf start | openssl dgst -sha256 -r | cut -d' ' -f1)
for i in $(seq 30); do
	key=$(openssl kdf -keylen 32 -kdfopt digest:SHA2-256 -kdfopt pass:"$key" -kdfopt hexsalt:00112233445566778899aabbccddeeff -kdfopt iter:20000 PBKDF2 | tr -d ':\n' | tr A-Z a-z)
	seq $((i * 2000)) | openssl enc -aes-256-ctr -K "$key" -iv 000102030405060708090a0b0c0d0e0f | openssl dgst -sha512 -r >>digests
	if ((i % 6 == 0)); then echo "round $i ${key:0:16}"; fi
	sleep 0.05
done
# A session between two processes that stays open; what keys it uses stays its secret.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -keyout "$dir/key" -out "$dir/cert" 2>/dev/null
openssl s_server -accept 127.0.0.1:8443 -key "$dir/key" -cert "$dir/cert" -quiet -rev -naccept 1 >/dev/null 2>&1 &
until grep -q ':20FB 00000000:0000 0A' /proc/net/tcp; do sleep 0.05; done # 8443 is being listened on
for i in $(seq 50); do echo "secret number $i"; sleep 0.08; done |
	openssl s_client -connect 127.0.0.1:8443 -CAfile "$dir/cert" -verify_return_error -quiet -no_ign_eof 2>/dev/null >reversed || true
wait
rm -r "$dir"
wc -l reversed
sha256sum digests reversed
