#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: SWI-Prolog: threads with message queues, constraints over integers, tabling, exceptions, findall over big terms
# Needs: swi-prolog-nox
#SBATCH --job-name=swi-prolog --ntasks=1 --output=log
set -eu
cat >swarm.pl <<'PL'
:- use_module(library(clpfd)).
:- use_module(library(thread)).

:- table path/2.
edge(X, Y) :- between(0, 59, X), (Y is (X * 7 + 3) mod 60 ; Y is (X * X + 1) mod 60).
path(X, Y) :- edge(X, Y).
path(X, Y) :- path(X, Z), edge(Z, Y).

queens(N, Qs) :- length(Qs, N), Qs ins 1..N, safe(Qs), labeling([ff], Qs).
safe([]).
safe([Q|Qs]) :- no_attack(Q, Qs, 1), safe(Qs).
no_attack(_, [], _).
no_attack(Q, [Q1|Qs], D) :- Q #\= Q1, abs(Q - Q1) #\= D, D1 is D + 1, no_attack(Q, Qs, D1).

mix(X, Y) :- Y is ((X xor (X >> 5)) * 48271) mod 2147483647.

worker(Main) :-
    thread_get_message(ask(Turn, From)),
    ( Turn =:= 0 -> true
    ; numlist(1, 3000, L), foldl([I, A, B]>>(J is I * From + Turn, mix(J, M), B is A + M), L, 0, S),
      thread_send_message(Main, sum(From, S)), worker(Main) ).

turn(Ids, Out, Turn) :-
    forall(nth1(W, Ids, Id), thread_send_message(Id, ask(Turn, W))),
    findall(S, (member(W, [1, 2, 3]), thread_get_message(sum(W, S))), Sums),
    N is 6 + Turn mod 5, queens(N, Qs),
    abolish_all_tables, aggregate_all(count, path(Turn, _), Paths),
    catch((Turn mod 7 =:= 0 -> throw(tired(Turn)) ; E = fresh), E, true),
    format(Out, "~w ~w ~w ~w ~w~n", [Turn, Sums, Qs, Paths, E]), flush_output(Out),
    ( Turn mod 10 =:= 0 -> format("turn ~w: ~w~n", [Turn, Qs]), flush_output ; true ),
    sleep(0.08).

main :-
    thread_self(Me),
    findall(Id, (between(1, 3, _), thread_create(worker(Me), Id)), Ids),
    format("solving~n"), flush_output,
    open(answers, write, Out),
    forall(between(1, 59, Turn), turn(Ids, Out, Turn)),
    close(Out),
    forall(member(Id, Ids), (thread_send_message(Id, ask(0, 0)), thread_join(Id, true))).
PL
swipl -g main -t halt swarm.pl
sha256sum answers
