// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"

// testMove: a space that can move takes its memory and its queued work to another device, and leaves no memory
// behind.
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
	a := r.allocBytes(n)
	want := makePattern(n, 3)
	r.copyIn(a, want)
	r.wantError("move a mapped space", mover.Move(there), backend.AlreadyMapped)
	r.pauseSpace()
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a, Value: 9, Element: 1, Width: 5})) // the fill is held, and moves with the space
	r.wantError("move to nowhere", mover.Move(nil), backend.InvalidValue)
	r.mustSucceed(mover.Move(there))
	r.mustSucceed(mover.Move(there)) // the space is there already

	// Another space gets the device that the space has left, and then the device where the space is.
	other := must(r.dev.NewSpace(backend.SpaceConfig{Memory: smallMemory, Base: 100 << 40}))(r)
	r.mustSucceed(other.Map())
	r.mustSucceed(r.space.Map())
	r.syncStream()
	copy(want, []byte{9, 9, 9, 9, 9})
	r.wantBytes("moved", a, want)
	guest := must(there.NewSpace(backend.SpaceConfig{Memory: smallMemory, Base: 120 << 40}))(r)
	r.wantError("map a second space where it is", guest.Map(), backend.AlreadyMapped)
	r.mustSucceed(guest.Close())

	// The space moves back.
	r.mustSucceed(other.Unmap())
	r.pauseSpace()
	r.mustSucceed(mover.Move(r.dev))
	r.mustSucceed(r.space.Map())
	r.wantError("map the other space again", other.Map(), backend.AlreadyMapped)
	b := r.allocBytes(n)
	r.copyIn(b, want)
	r.wantBytes("moved back", a, want)
	r.wantBytes("allocated after the way back", b, want)
	r.mustSucceed(other.Close())
}
