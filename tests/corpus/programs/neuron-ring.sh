#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: NEURON: a ring of Hodgkin-Huxley cells with synapses, step by step, spikes and voltages
# Needs: python3-neuron python3-numpy
#SBATCH --job-name=neuron-ring --ntasks=1 --output=log
set -eu
cat >ring.py <<'PY'
import hashlib, time
from neuron import h

h.load_file("stdrun.hoc")
print("building", flush=True)
cells, connections, spikes = [], [], h.Vector()
ids = h.Vector()
for n in range(16):
    soma, dend = h.Section(name=f"soma{n}"), h.Section(name=f"dend{n}")
    soma.L = soma.diam = 12.6157
    dend.L, dend.diam, dend.nseg = 200, 1, 21
    dend.connect(soma(1))
    soma.insert("hh")
    dend.insert("pas")
    for segment in dend:
        segment.pas.g, segment.pas.e = 0.001, -65
    synapse = h.ExpSyn(dend(0.5))
    synapse.tau = 2
    cells.append((soma, dend, synapse))
for n, (soma, _, _) in enumerate(cells):
    link = h.NetCon(soma(0.5)._ref_v, cells[(n + 1) % 16][2], sec=soma)
    link.weight[0], link.delay = 0.05, 3 + n % 3
    link.record(spikes, ids, n)
    connections.append(link)
stimulus = h.NetStim()
stimulus.number, stimulus.start = 1, 5
first = h.NetCon(stimulus, cells[0][2])
first.weight[0] = 0.05
trace = h.Vector().record(cells[7][0](0.5)._ref_v)
h.finitialize(-65)
for turn in range(1, 61):
    h.continuerun(turn * 10)
    if turn % 5 == 0:
        print("at", turn * 10, "ms:", int(spikes.size()), f"spikes, {cells[3][0](0.5).v:.9f} mV", flush=True)
    time.sleep(0.08)
h.CVode().active(1)
h.finitialize(-65)
h.continuerun(100)
print("variable steps:", int(spikes.size()), hashlib.sha256(repr([round(t, 6) for t in spikes]).encode()).hexdigest())
PY
python3 ring.py
rm ring.py
