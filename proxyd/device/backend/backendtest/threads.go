// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// testManyThreads: threads of a program, each with its own streams and memory, make all kinds of calls at once. Each
// checks its results.
func testManyThreads(r *rig) {
	m := r.loadKernels()
	add := r.findKernel(m, "add")
	bump := r.findKernel(m, "bump")
	const threads, rounds = 6, 20
	errs := make(chan error, threads)
	var wg sync.WaitGroup
	for id := range threads {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := oneThread(r, add, uint64(id), rounds); err != nil {
				errs <- fmt.Errorf("thread %d: %w", id, err)
			}
		}()
	}
	// Meanwhile another goroutine loads and unloads modules, and asks for states.
	for range 10 {
		o, _, err := r.cu.Load([]byte(Defines), backend.LoadConfig{})
		r.mustSucceed(err)
		r.space.Info()
		r.space.State()
		r.mustSucceed(o.Unload())
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		r.Error(err)
	}
	a := r.allocBytes(4)
	r.mustSucceed(r.runKernel(bump, 1, joinArgs([]backend.Addr{a})))
	r.syncStream()
	r.wantBytes("counter", a, joinWords(7))
	r.mustSucceed(m.Unload())
	r.mustSucceed(r.cu.Free(a))
	r.mustSucceed(r.space.Drain(r.ctx))
	if free, total := r.space.Info(); free != total {
		r.Errorf("%d of %d bytes are free at the end", free, total)
	}
}

func oneThread(r *rig, add backend.Function, seed uint64, rounds int) error {
	rnd := rand.New(rand.NewPCG(seed, 3))
	work, err := r.cu.NewStream(backend.StreamConfig{NonBlocking: seed%2 == 0})
	if err != nil {
		return err
	}
	side, err := r.cu.NewStream(backend.StreamConfig{NonBlocking: seed%3 != 0})
	if err != nil {
		return err
	}
	e, err := r.cu.NewEvent(backend.EventConfig{})
	if err != nil {
		return err
	}
	for round := range rounds {
		n := 64 * (1 + rnd.IntN(4000))
		var a backend.Addr
		pooled := rnd.IntN(2) == 0
		if pooled {
			a, err = work.AllocAsync(backend.DefaultPool, uint64(n))
		} else {
			a, err = r.cu.Alloc(uint64(n))
		}
		if err != nil {
			return err
		}
		want, got := makePattern(n, byte(seed)), make([]byte, n)
		copy(want, joinWords(uint32(seed)))
		launch := backend.Launch{Function: add, Grid: one, Block: one, Params: joinArgs([]backend.Addr{a}, uint32(round))}
		for _, err := range []error{
			work.Copy(backend.Copy{Src: hostBytes(bytes.Clone(want)), Dst: deviceAt(a), Width: uint64(n)}),
			work.Launch(launch),
			work.Record(e),
			side.Wait(e),
			side.Copy(backend.Copy{Src: deviceAt(a), Dst: hostBytes(got), Width: uint64(n)}),
			side.Record(e),
			work.Wait(e),
		} {
			if err != nil {
				return err
			}
		}
		free := func() error { return r.cu.Free(a) }
		if rnd.IntN(2) == 0 {
			free = func() error { return work.FreeAsync(a) }
		}
		if err := free(); err != nil {
			return err
		}
		if err := side.Synchronize(r.ctx); err != nil {
			return err
		}
		copy(want, joinWords(uint32(seed)+uint32(round)))
		if !bytes.Equal(got, want) {
			return fmt.Errorf("round %d: %d bytes at %#x are not what was written", round, n, uint64(a))
		}
	}
	if err := work.Destroy(); err != nil {
		return err
	}
	return side.Destroy()
}
