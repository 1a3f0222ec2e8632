// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"

// testMove: a space that can move takes its memory and its queued work to another device, and leaves nothing behind.
func testMove(r *rig) {
	mover, is := r.space.(backend.Mover)
	if !is {
		return // backend.Mover is for backends that can
	}
	there := r.b.Devices()[0]
	if there == r.dev {
		there = r.secondDevice()
	}
	const n = 3 << 20
	a := r.alloc(n)
	want := pattern(n, 3)
	r.put(a, want)
	r.want("move a mapped space", mover.Move(there), backend.AlreadyMapped)
	r.pauseSpace()
	r.ok(r.stream.Fill(backend.Fill{Addr: a, Value: 9, Element: 1, Width: 5})) // is held, and goes along
	r.want("move to nowhere", mover.Move(nil), backend.InvalidValue)
	r.ok(mover.Move(there))
	r.ok(mover.Move(there)) // it is there already

	// Another space has the device that it has left, and then the one where it is.
	other := must(r.dev.NewSpace(backend.SpaceConfig{Memory: smallMemory, Base: 100 << 40}))(r)
	r.ok(other.Map())
	r.ok(r.space.Map())
	r.sync()
	copy(want, []byte{9, 9, 9, 9, 9})
	r.has("moved", a, want)
	guest := must(there.NewSpace(backend.SpaceConfig{Memory: smallMemory, Base: 120 << 40}))(r)
	r.want("map a second space where it is", guest.Map(), backend.AlreadyMapped)
	r.ok(guest.Close())

	// And back.
	r.ok(other.Unmap())
	r.pauseSpace()
	r.ok(mover.Move(r.dev))
	r.ok(r.space.Map())
	r.want("map the other space again", other.Map(), backend.AlreadyMapped)
	b := r.alloc(n)
	r.put(b, want)
	r.has("moved back", a, want)
	r.has("allocated after the way back", b, want)
	r.ok(other.Close())
}
