#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: COBOL: an indexed file that is written, rewritten and read by keys, a sort with procedures, a report of decimal sums
# Needs: gnucobol3 gcc
#SBATCH --job-name=gnucobol --ntasks=1 --output=log
set -eu
echo "compiling"
cat >ledger.cob <<'COB'
       identification division.
       program-id. ledger.
       environment division.
       input-output section.
       file-control.
           select accounts assign to "accounts.dat" organization indexed
               access dynamic record key acc-no
               alternate record key acc-name with duplicates.
           select report-file assign to "report"
               organization line sequential.
           select work-file assign to "work.tmp".
           select sorted-file assign to "sorted"
               organization line sequential.
       data division.
       file section.
       fd accounts.
       01 account.
          05 acc-no pic 9(6).
          05 acc-name pic x(12).
          05 balance pic s9(9)v99 comp-3.
       fd report-file.
       01 report-line pic x(60).
       sd work-file.
       01 work-rec.
          05 w-balance pic s9(9)v99.
          05 w-no pic 9(6).
       fd sorted-file.
       01 sorted-rec.
          05 s-no pic 9(6).
          05 filler pic x.
          05 s-balance pic -(9)9.99.
       working-storage section.
       01 turn pic 9(4).
       01 i pic 9(6).
       01 x pic 9(18) comp-5.
       01 kind pic 99.
       01 total pic s9(11)v99.
       01 shown pic -(11)9.99.
       01 eof pic 9.
       procedure division.
       main-part.
           open output accounts
           perform varying i from 1 by 1 until i > 400
               move i to acc-no
               compute kind = function mod(i * 7919, 40)
               string "name" kind delimited by size into acc-name
               move 0 to balance
               write account
               move spaces to acc-name
           end-perform
           close accounts
           open i-o accounts
           open output report-file
           perform varying turn from 1 by 1 until turn > 80
               perform post-turn
               if function mod(turn, 16) = 0 perform sum-up end-if
               call "SYSTEM" using "sleep 0.06"
           end-perform
           sort work-file on descending key w-balance
               ascending key w-no
               input procedure is give-rows
               output procedure is take-rows
           close accounts report-file
           stop run.
       post-turn.
           perform varying i from 1 by 1 until i > 300
               compute x = function mod(turn * 104729 + i * 7919, 400)
               compute acc-no = x + 1
               read accounts key is acc-no
                   invalid key display "no account " acc-no
               end-read
               compute balance rounded = balance * 1.001
                   + function mod(turn * i, 1000) / 7 - 60
               rewrite account
           end-perform.
       sum-up.
           move 0 to total eof
           move "name07" to acc-name
           start accounts key is >= acc-name
           perform until eof = 1
               read accounts next at end move 1 to eof
               not at end add balance to total
               end-read
           end-perform
           move total to shown
           display "turn " turn ": " function trim(shown)
           move spaces to report-line
           string "turn " turn " " shown delimited by size
               into report-line
           write report-line.
       give-rows.
           move 0 to eof acc-no
           start accounts key is > acc-no
           perform until eof = 1
               read accounts next at end move 1 to eof
               not at end
                   move balance to w-balance
                   move acc-no to w-no
                   release work-rec
               end-read
           end-perform.
       take-rows.
           open output sorted-file
           move 0 to eof
           perform until eof = 1
               return work-file at end move 1 to eof
               not at end
                   move spaces to sorted-rec
                   move w-no to s-no
                   move w-balance to s-balance
                   write sorted-rec
               end-return
           end-perform
           close sorted-file.
COB
cobc -x -o ledger ledger.cob
./ledger
rm ledger accounts.dat*
sha256sum report sorted
