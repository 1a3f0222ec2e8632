// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"os"
	osexec "os/exec"
	"strconv"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/fakecuda"
)

const typeUint8 = 1

// player is a member of a team, with memory.
type player struct {
	team   backend.Team
	space  backend.Space
	stream backend.Stream
	at     backend.Addr
}

func openTeams(t *testing.T, l *fakecuda.Library) *Backend {
	t.Helper()
	b, err := Open(Config{Library: l.Path, NCCL: l.Path, VariablesMayMove: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() }) // of a test that failed
	return b
}

// player has a device join a team. Its memory is two pieces, between which a buffer of 64 bytes at at lies.
func (b *Backend) player(t *testing.T, device int, id backend.TeamID, members, member int) *player {
	t.Helper()
	d := b.list[device]
	team, err := d.Join(t.Context(), id, members, member)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewSpace(backend.SpaceConfig{Memory: 64 << 20, Base: backend.DefaultBase + backend.Addr(device)<<40})
	if err != nil {
		t.Fatal(err)
	}
	base, err := s.Reserve(2*backend.Granule, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range backend.Addr(2) {
		m, err := s.NewMemory(backend.Granule)
		if err == nil {
			err = s.MapMemory(base+i*backend.Granule, backend.Granule, 0, m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := s.NewContext(0)
	if err == nil {
		err = errors.Join(s.SetAccess(base, 2*backend.Granule, true), s.Map())
	}
	if err != nil {
		t.Fatal(err)
	}
	return &player{team, s, c.Legacy(), base + backend.Granule - 32}
}

// gather gives all members the bytes of each member.
func (p *player) gather(t *testing.T) {
	t.Helper()
	lent := []backend.Buffer{{Addr: p.at, Size: 16}, {Addr: p.at, Size: 64, Write: true}}
	if err := p.stream.(backend.Lender).Lend(lent, func(s []backend.Span, done func(error)) {
		go func() {
			done(p.team.Do([]backend.TeamOp{{Kind: backend.TeamAllGather, Type: typeUint8, Count: 16, Send: s[0], Recv: s[1]}}))
		}()
	}); err != nil {
		t.Fatal(err)
	}
}

// TestTeamProcesses: a team of two processes, with memory in pieces.
func TestTeamProcesses(t *testing.T) {
	const variable = "SINGULARITY_TEST_TEAM"
	l := newFakeLibrary(t)
	b := openTeams(t, l)
	if text := os.Getenv(variable); text != "" {
		id, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		oneOfTwo(t, b, backend.TeamID(id), 1)
		return
	}
	id, err := b.list[0].NewTeamID()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(self, "-test.run", "^TestTeamProcesses$")
	cmd.Env = append(os.Environ(), variable+"="+hex.EncodeToString(id[:]))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	oneOfTwo(t, b, id, 0)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the other process: %v\n%s", err, &out)
	}
}

// oneOfTwo is one of two processes of a team.
func oneOfTwo(t *testing.T, b *Backend, id backend.TeamID, member int) {
	t.Helper()
	p := b.player(t, member, id, 2, member)
	if err := p.stream.Fill(backend.Fill{Addr: p.at, Value: uint32(member + 1), Element: 1, Width: 16}); err != nil {
		t.Fatal(err)
	}
	p.gather(t)
	if err := p.stream.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := p.space.(*space).spanOf(backend.Buffer{Addr: p.at, Size: 32})
	if err != nil {
		t.Fatal(err)
	}
	got, err := all.Bytes()
	all.releasePieces()
	if err != nil {
		t.Fatal(err)
	}
	if want := append(bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 16)...); !bytes.Equal(got, want) {
		t.Errorf("member %s has % x", strconv.Itoa(member), got)
	}
	p.team.Close()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestTeamGivenUp: the wait for a member that does not come can be stopped, and then the team is gone.
func TestTeamGivenUp(t *testing.T) {
	b := openTeams(t, newFakeLibrary(t))
	d := b.list[0]
	id, err := d.NewTeamID()
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go cancel(why)
	if _, err := d.Join(ctx, id, 2, 0); !errors.Is(err, why) {
		t.Errorf("Join without the other member: %v, want the context's cause", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestTeamTooLate: a member that joins when the backend is being closed does not outlive the backend.
func TestTeamTooLate(t *testing.T) {
	b := openTeams(t, newFakeLibrary(t))
	d := b.list[0]
	id, err := d.NewTeamID()
	if err != nil {
		t.Fatal(err)
	}
	late := &team{device: d}
	if !d.enlistTeam(late) {
		t.Error("a team is refused as too late before the backend is closed")
	}
	delete(d.teams, late)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if d.enlistTeam(late) {
		delete(d.teams, late)
		t.Error("a team is taken after the backend was closed, and nothing would end the team")
	}
	if _, err := d.Join(t.Context(), id, 1, 0); !errors.Is(err, errClosed) || len(d.teams) > 0 || d.served {
		t.Errorf("Join after Close = %v, with %d teams, served %v", err, len(d.teams), d.served)
	}
}

// TestNoNCCL: without its library there are no teams, and all else works.
func TestNoNCCL(t *testing.T) {
	b, err := Open(Config{Library: newFakeLibrary(t).Path, NCCL: "/nowhere/libnccl.so.2"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.list[0].Teams(); err == nil {
		t.Error("a device without NCCL can be in a team")
	}
}
