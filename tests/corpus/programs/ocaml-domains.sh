#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: OCaml 5: domains side by side, effects for coroutines, a busy garbage collector, compiled by ocamlopt and run as bytecode, too
# Needs: ocaml
#SBATCH --job-name=ocaml-domains --ntasks=1 --output=log
set -eu
echo "compiling"
cat >swarm.ml <<'ML'
open Effect
open Effect.Deep

type _ Effect.t += Yield : int -> unit Effect.t

let mix x = let x = (x lxor (x lsr 29)) * 0x1ce4e5b9bf58476d in x lxor (x lsr 32)

module M = Map.Make (Int)

(* a producer that hands out numbers by an effect, and its handler, which keeps the continuation *)
let produce n = for i = 1 to n do perform (Yield (mix i)) done

let total n =
  let sum = ref 0 in
  match_with produce n
    { retc = (fun () -> !sum);
      exnc = raise;
      effc = (fun (type a) (e : a Effect.t) ->
        match e with
        | Yield v -> Some (fun (k : (a, _) continuation) -> sum := !sum + v; continue k ())
        | _ -> None) }

let work turn d =
  let m = ref M.empty in
  for i = 0 to 3000 do m := M.add (mix (turn * 7919 + (d * 104729) + i)) (string_of_int i) !m done;
  M.fold (fun k s a -> (a * 31) + k + String.length s) !m (total 2000)

let () =
  let turns = int_of_string Sys.argv.(1) in
  let out = open_out Sys.argv.(2) in
  let lock = Mutex.create () and shared = Hashtbl.create 16 in
  for turn = 1 to turns do
    let ds = List.init 3 (fun d -> Domain.spawn (fun () ->
      let v = work turn d in
      Mutex.protect lock (fun () -> Hashtbl.replace shared (turn, d) v);
      v)) in
    let vs = List.map Domain.join ds in
    Printf.fprintf out "%d %s\n%!" turn (String.concat " " (List.map string_of_int vs));
    if turn mod 15 = 0 then Printf.printf "turn %d: %d entries\n%!" turn (Hashtbl.length shared);
    Unix.sleepf 0.06
  done;
  close_out out
ML
ocamlopt -I +unix unix.cmxa swarm.ml -o swarm
ocamlc -I +unix unix.cma swarm.ml -o swarm.byte
./swarm 60 native
ocamlrun swarm.byte 30 bytecode
head -n 30 native | cmp - bytecode && echo "the same numbers"
rm swarm swarm.byte swarm.cm? swarm.o
sha256sum native
