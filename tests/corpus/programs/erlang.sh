#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Erlang: thousands of processes, supervised crashes, an ETS table, binary matching
# Needs: erlang-base
#SBATCH --job-name=erlang --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d)
echo "compiling"
cat >swarm.erl <<'ERL'
-module(swarm).
-export([main/0]).

main() ->
    T = ets:new(t, [ordered_set, public]),
    io:format("spawning~n"),
    lists:foreach(fun(Turn) -> turn(T, Turn), timer:sleep(90) end, lists:seq(1, 60)),
    {ok, F} = file:open("table", [write]),
    ets:foldl(fun({K, V}, ok) -> io:format(F, "~w ~w~n", [K, V]) end, ok, T),
    ok = file:close(F),
    io:format("entries ~w, crashes ~w~n", [ets:info(T, size), ets:lookup_element(T, crashes, 2)]),
    halt(0).

turn(T, Turn) ->
    Refs = [monitored(T, Turn, N) || N <- lists:seq(1, 200)],
    Sum = lists:sum([receive {'DOWN', R, _, _, {done, V}} -> V; {'DOWN', R, _, _, _} -> crash(T) end || R <- Refs]),
    ets:insert(T, {{turn, Turn}, Sum}),
    if Turn rem 10 =:= 0 -> io:format("turn ~w: ~w~n", [Turn, Sum]); true -> ok end.

monitored(T, Turn, N) ->
    {_, R} = spawn_monitor(fun() ->
        <<A:16, B:16, _/binary>> = erlang:md5(<<Turn:32, N:32>>),
        ets:insert(T, {{Turn, N}, A bxor B}),
        if N rem 50 =:= 49 -> exit(tired); true -> exit({done, A + B}) end
    end),
    R.

crash(T) -> ets:update_counter(T, crashes, 1, {crashes, 0}), 1.
ERL
erlc swarm.erl
erl -noshell -s swarm main +S 2:2
rm -r "$HOME" swarm.beam
sha256sum table
