#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: CHICKEN: Scheme is compiled to C that never returns and collects its stack; the program and the interpreter agree
# Needs: chicken-bin libchicken-dev gcc
#SBATCH --job-name=chicken-scheme --ntasks=1 --output=log
set -eu
echo "compiling"
cat >queens.scm <<'SCM'
(import (chicken base) (chicken format) (chicken process) (chicken gc) (chicken random) (chicken process-context) (chicken bitwise) (chicken string))

(define (mix x) (let ((y (bitwise-and (* (bitwise-xor x (arithmetic-shift x -7)) 48271) #xfffffff))) (bitwise-xor y (arithmetic-shift y -11))))

(define (queens n)
  (let place ((row 0) (cols '()) (count 0))
    (if (= row n)
        (+ count 1)
        (let loop ((c 0) (count count))
          (if (= c n)
              count
              (loop (+ c 1)
                    (if (let safe ((rest cols) (d 1))
                          (or (null? rest)
                              (and (not (= (car rest) c)) (not (= (abs (- (car rest) c)) d)) (safe (cdr rest) (+ d 1)))))
                        (place (+ row 1) (cons c cols) count)
                        count)))))))

(define (churn turn) ; continuations that are kept and called again
  (let ((k #f) (n 0) (sum 0))
    (call/cc (lambda (c) (set! k c)))
    (set! n (+ n 1))
    (set! sum (+ sum (mix (+ n turn))))
    (if (< n 400) (k #f))
    (apply + sum (map string-length (let loop ((i 0) (l '())) (if (= i 3000) l (loop (+ i 1) (cons (number->string (mix i)) l))))))))

(define turns (string->number (car (command-line-arguments))))
(do ((turn 1 (+ turn 1))) ((> turn turns))
  (printf "~a ~a ~a~%" turn (queens (+ 4 (modulo turn 4))) (churn turn))
  (flush-output)
  (if (zero? (modulo turn 20)) (gc #t))
  (system "sleep 0.05"))
SCM
csc -O2 -o queens queens.scm
./queens 100 | tee compiled | grep --line-buffered '0 [0-9]* [0-9]*$'
csi -s queens.scm 25 >interpreted
head -n 25 compiled | cmp - interpreted && echo "the interpreter agrees"
rm queens
sha256sum compiled
