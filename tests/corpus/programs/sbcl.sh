#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: SBCL: Lisp compiled at run time, threads with mutexes and mailboxes, garbage, conditions; it saves its image and goes on from it
# Needs: sbcl
#SBATCH --job-name=sbcl --ntasks=1 --output=log
set -eu
echo "compiling"
cat >swarm.lisp <<'LISP'
(defpackage :swarm (:use :cl :sb-thread))
(in-package :swarm)
(declaim (optimize (speed 2)))

(defvar *table* (make-hash-table :test 'equal :synchronized t))

(define-condition tired (error) ((turn :initarg :turn :reader turn)))

(defun mix (x)
  (declare (type (unsigned-byte 62) x))
  (let ((y (ldb (byte 62 0) (* (logxor x (ash x -29)) 2085187865127))))
    (logxor y (ash y -31))))

(defun collatz-sum (turn n)
  (loop for i from n below (+ n 400)
        sum (length (loop for x = (+ i 1 (mod (mix turn) 1000)) then (if (evenp x) (/ x 2) (1+ (* 3 x)))
                          until (= x 1) collect x))))

(defun turn-of (turn)
  (let* ((threads (loop for w below 4 collect
                    (let ((w w))
                      (make-thread (lambda ()
                                     (let ((v (collatz-sum turn (* w 1000))))
                                       (setf (gethash (list turn w) *table*) v)))))))
         (sum (reduce #'+ (mapcar #'join-thread threads)))
         (big (integer-length (expt (+ 3 turn) 2000))))
    (handler-case (when (zerop (mod turn 7)) (error 'tired :turn turn))
      (tired (c) (incf sum (turn c))))
    (format nil "~d ~d ~d" turn sum big)))

(defun run (from to file)
  (with-open-file (out file :direction :output :if-exists :append :if-does-not-exist :create)
    (loop for turn from from to to do
      (format out "~a~%" (turn-of turn))
      (when (zerop (mod turn 10))
        (format t "turn ~d: ~d entries~%" turn (hash-table-count *table*))
        (finish-output)
        (sb-ext:gc :full (zerop (mod turn 20))))
      (sleep 0.09))))
LISP
sbcl --noinform --non-interactive --no-userinit --no-sysinit \
	--eval '(let ((*compile-verbose* nil) (*standard-output* (make-broadcast-stream)) (*error-output* (make-broadcast-stream))) (load (compile-file "swarm.lisp")))' \
	--eval '(swarm::run 1 40 "sums")' --eval '(sb-ext:save-lisp-and-die "image")' >said
grep '^turn' said
echo "going on from the image"
sbcl --noinform --core image --non-interactive --no-userinit --no-sysinit --eval '(swarm::run 41 70 "sums")'
rm swarm.fasl image said
sha256sum sums
