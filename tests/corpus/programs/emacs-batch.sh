#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Emacs without a display: Lisp that is compiled, processes with filters and sentinels, timers, threads, text with markers and undo
# Needs: emacs-nox
#SBATCH --job-name=emacs-batch --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d)
cat >swarm.el <<'EL'
;;; -*- lexical-binding: t -*-
(require 'cl-lib)
(require 'generator)
(defun mix (x) (let ((y (logand (* (logxor x (ash x -13)) 48271) #xfffffffff))) (logxor y (ash y -7))))
(iter-defun numbers (n) (let ((x n)) (while t (setq x (mix (1+ x))) (iter-yield x))))
(defvar ticks 0)
(defvar heard nil)
(defvar ended nil)
(defvar lines (make-hash-table))
(defun collect (p text)
  (with-current-buffer (process-buffer p)
    (goto-char (point-max)) (insert text)
    (goto-char (point-min))
    (while (re-search-forward "^\\([0-9]+\\) \\(.*\\)\n" nil t)
      (puthash (string-to-number (match-string 1)) (match-string 2) lines)
      (replace-match ""))))
(defun run ()
  (let* ((n (numbers 7)) (text (get-buffer-create "text"))
         (bc (make-process :name "cat" :buffer (get-buffer-create "answers") :connection-type 'pipe :noquery t
                           :command '("awk" "{ print $1, $2 * $2; fflush() }") :filter #'collect
                           :sentinel (lambda (_ e) (setq ended (string-trim e)))))
         (timer (run-at-time 0 0.01 (lambda () (cl-incf ticks)))))
    (with-current-buffer text (buffer-enable-undo))
    (with-temp-buffer
      (dotimes (i 80)
        (let* ((turn (1+ i)) (x (iter-next n)) (m nil)
               (thread (make-thread (lambda () (cl-loop for j below 3000 sum (mix (+ j turn)))))))
          (process-send-string bc (format "%d %d\n" turn (mod x 100000)))
          (with-current-buffer text
            (goto-char (1+ (mod x (max 1 (point-max)))))
            (setq m (point-marker))
            (insert (format "<%d>" turn)) (undo-boundary)
            (when (zerop (mod turn 9)) (setq last-command nil) (primitive-undo 1 buffer-undo-list)))
          (while (not (gethash turn lines)) (accept-process-output bc 0.5))
          (insert (format "%d %s %d %d %d\n" turn (gethash turn lines) (thread-join thread) (marker-position m)
                          (with-current-buffer text (buffer-size))))
          (when (zerop (mod turn 16)) (garbage-collect) (princ (format "turn %d: %s\n" turn (gethash turn lines)) #'external-debugging-output))
          (sit-for 0.06)))
      (insert (with-current-buffer text (buffer-string)) "\n")
      (write-region nil nil "answers" nil 'quiet))
    (process-send-eof bc)
    (while (not ended) (accept-process-output bc 0.1))
    (cancel-timer timer)
    (message "awk %s, %s" ended (if (> ticks 100) "the timer ran" "too few ticks"))))
EL
echo "compiling"
emacs -Q --batch --eval '(setq byte-compile-warnings nil)' -f batch-byte-compile swarm.el 2>/dev/null
emacs -Q --batch -l ./swarm.elc -f run 2>&1
rm -r swarm.elc "$HOME"
sha256sum answers
