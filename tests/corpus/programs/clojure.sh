#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Clojure on the JVM: refs in software transactions, agents, futures, lazy sequences, code that is compiled as it is read
# Needs: clojure default-jre-headless
#SBATCH --job-name=clojure --ntasks=1 --output=log
set -eu
cat >swarm.clj <<'CLJ'
(import '(java.util.concurrent Executors))
(println "counting") (flush)
(defn mix [x] (let [y (unchecked-multiply (bit-xor (long x) (unsigned-bit-shift-right (long x) 30)) -4658895280553007687)]
                (bit-xor y (unsigned-bit-shift-right y 31))))
(def accounts (vec (map #(ref (* 100 %)) (range 8))))
(def moves (agent 0))
(defn move! [seed]
  (let [m (mix seed) from (mod m 8) to (mod (quot m 8) 8) n (mod (quot m 64) 10)]
    (dosync
      (alter (accounts from) - n)
      (commute (accounts to) + n)
      (send moves inc))))
(defn turn [t]
  (let [fs (doall (for [w (range 4)] (future (doseq [i (range 50)] (move! (+ (* t 1000) (* w 50) i))))))]
    (run! deref fs)
    (await moves)
    [t (map deref accounts) @moves (reduce unchecked-add (take-nth 7 (map mix (range t (+ t 4000)))))
     ((eval `(fn [x#] (* x# ~t))) 3)]))
(with-open [out (clojure.java.io/writer "accounts")]
  (doseq [t (range 1 91)]
    (let [[_ rs n s e :as row] (turn t)]
      (.write out (str (pr-str row) "\n")) (.flush out)
      (assert (= 2800 (reduce + rs)))
      (when (zero? (mod t 15)) (println "turn" t "moves" n "first" (first rs)) (flush))
      (Thread/sleep 60))))
(shutdown-agents)
CLJ
clojure swarm.clj
sha256sum accounts
