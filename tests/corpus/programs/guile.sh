#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Guile: continuations, threads, futures and fluids in its bytecode virtual machine, ports, a reader of a slow pipe
# Needs: guile-3.0
#SBATCH --job-name=guile --ntasks=1 --output=log
set -eu
export GUILE_AUTO_COMPILE=0
cat >swarm.scm <<'SCM'
(use-modules (ice-9 threads) (ice-9 futures) (ice-9 popen) (ice-9 rdelim) (ice-9 control) (srfi srfi-1) (srfi srfi-9) (rnrs bytevectors))

(define-record-type <sum> (make-sum turn value) sum? (turn sum-turn) (value sum-value))
(define depth (make-parameter 0))

(define (mix x) (let ((y (logand (* (logxor x (ash x -13)) 6364136223846793005) #xffffffffffff))) (logxor y (ash y -17))))

;; a generator by delimited continuations
(define (generate n)
  (reset (let loop ((i 0)) (if (< i n) (begin (shift k (cons (mix i) k)) (loop (+ i 1))) '()))))
(define (drain g) (let loop ((g g) (sum 0)) (if (null? g) sum (loop ((cdr g) #f) (+ sum (car g))))))

(define lock (make-mutex))
(define seen '())

(define (turn-of turn)
  (let* ((parts (par-map (lambda (w) (parameterize ((depth w)) (fold + (depth) (map mix (iota 600 (* turn w)))))) '(1 2 3 4)))
         (later (future (drain (generate 300))))
         (t (call-with-new-thread (lambda () (with-mutex lock (set! seen (cons turn seen)) (length seen)))))
         (early (call/cc (lambda (return) (for-each (lambda (x) (if (> x (* turn 1000)) (return x))) (map mix (iota 500))) 0))))
    (make-sum turn (+ (apply + parts) (touch later) (join-thread t) early))))

(define clock (open-pipe* OPEN_READ "sh" "-c" "for i in $(seq 90); do echo $i; sleep 0.08; done"))
(display "counting\n") (force-output)
(call-with-output-file "sums"
  (lambda (out)
    (let loop ((line (read-line clock)))
      (unless (eof-object? line)
        (let* ((turn (string->number line)) (s (turn-of turn)))
          (simple-format out "~a ~a\n" (sum-turn s) (sum-value s))
          (when (zero? (modulo turn 15))
            (simple-format #t "turn ~a: ~a\n" turn (sum-value s)) (force-output) (gc)))
        (loop (read-line clock))))))
(simple-format #t "the clock ended with ~a, ~a seen\n" (status:exit-val (close-pipe clock)) (length seen))
SCM
guile --no-auto-compile -s swarm.scm
sha256sum sums
