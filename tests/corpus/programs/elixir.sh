#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Elixir: servers under a supervisor that starts them again, tasks, streams, agents, a registry of processes
# Needs: elixir
#SBATCH --job-name=elixir --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d) LANG=C.UTF-8 ELIXIR_ERL_OPTIONS="+S 2:2"
cat >swarm.exs <<'EX'
defmodule Counter do
  use GenServer, restart: :permanent
  def start_link(name), do: GenServer.start_link(__MODULE__, 0, name: via(name))
  def via(name), do: {:via, Registry, {Names, name}}
  def init(n), do: {:ok, n}
  def handle_call({:add, n}, _, sum), do: {:reply, sum + n, sum + n}
  def handle_cast(:crash, _), do: exit(:shutdown)
end

defmodule Swarm do
  def mix(x), do: :erlang.phash2({x, x * 7919}, 1_000_000_007)

  def await_new(name, old) do
    case Registry.lookup(Names, name) do
      [{pid, _}] when pid != old -> pid
      _ -> Process.sleep(1); await_new(name, old)
    end
  end

  def turn(turn, log) do
    parts =
      1..8
      |> Task.async_stream(fn w -> Enum.reduce(1..3000, 0, &(mix(&1 * w + turn) + &2)) end, max_concurrency: 4)
      |> Enum.map(fn {:ok, v} -> v end)

    sums = for {p, w} <- Enum.with_index(parts), do: GenServer.call(Counter.via(rem(w, 4)), {:add, p})

    if rem(turn, 5) == 0 do # one of them ends, and its supervisor starts it again, at zero
      name = rem(turn, 4)
      [{pid, _}] = Registry.lookup(Names, name)
      GenServer.cast(pid, :crash)
      await_new(name, pid)
    end

    Agent.update(log, &["#{turn} #{Enum.join(sums, " ")}\n" | &1])
    if rem(turn, 15) == 0, do: IO.puts("turn #{turn}: #{hd(sums)}")
    Process.sleep(60)
  end
end

IO.puts("counting")
{:ok, _} = Registry.start_link(keys: :unique, name: Names)
kids = for n <- 0..3, do: Supervisor.child_spec({Counter, n}, id: n)
{:ok, _} = Supervisor.start_link(kids, strategy: :one_for_one, max_restarts: 1000)
{:ok, log} = Agent.start_link(fn -> [] end)
Enum.each(1..90, &Swarm.turn(&1, log))
File.write!("sums", Agent.get(log, &Enum.reverse/1))
EX
elixir swarm.exs
rm -r "$HOME"
sha256sum sums
