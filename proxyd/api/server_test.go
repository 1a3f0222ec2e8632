// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/api"
	"github.com/singularity-slurm/singularity-slurm/proxyd/api/apitest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge/mungetest"
)

// daemon is a server with a fake conductor.
type daemon struct {
	*apitest.Conductor
	realm   *mungetest.Realm
	address string
	log     *bytes.Buffer
	looks   atomic.Int32 // of doctor
	written atomic.Int32 // looks that may write
}

func startDaemon(t testing.TB, operators ...string) *daemon {
	t.Helper()
	d := &daemon{Conductor: apitest.New(), realm: mungetest.NewRealm(), log: new(bytes.Buffer)}
	server := api.NewServer(api.Options{
		Node: "n1", Version: "1.2.3", SlurmUser: apitest.SlurmUser, Operators: operators, Conductor: d.Conductor,
		Doctor: func(_ context.Context, measure bool) []host.Finding {
			d.looks.Add(1)
			if measure {
				d.written.Add(1)
			}
			return []host.Finding{{Name: "kernel", Level: host.OK, Found: "Linux 6.18"}, {Name: "criu", Level: host.Fail, Found: "none", Needs: "criu 4.2", Do: "install it"}}
		},
		Health: func(context.Context) *rpc.Health { return &rpc.Health{Devices: "soft"} },
		Log:    slog.New(slog.NewTextHandler(d.log, nil)),
	}, d.realm.As(0, 0))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	t.Cleanup(server.Stop)
	d.address = l.Addr().String()
	return d
}

func (d *daemon) clientOf(t testing.TB, uid uint32) *rpc.Client {
	t.Helper()
	c, err := rpc.Dial("n1", d.address, "n7", d.realm.As(uid, uid))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// requests are all kinds of requests, each about jobs and checkpoints of alice.
var requests = []struct {
	name string
	ask  func(context.Context, *rpc.Client) error
	// users that are admitted
	owner, others, operators, daemons bool
}{
	{"ping", func(ctx context.Context, c *rpc.Client) error { _, err := c.Ping(ctx); return err }, false, false, false, true},
	{"call", func(ctx context.Context, c *rpc.Client) error {
		_, err := c.Call(ctx, dumpCall(""))
		return err
	}, false, false, false, true},
	{"doctor", func(ctx context.Context, c *rpc.Client) error { _, err := c.Doctor(ctx); return err }, true, true, true, true},
	{"show", func(ctx context.Context, c *rpc.Client) error { _, err := c.Show(ctx, "812"); return err }, true, false, true, true},
	{"checkpoint", func(ctx context.Context, c *rpc.Client) error {
		_, err := c.Checkpoint(ctx, &rpc.CheckpointRequest{Job: "812"}, nil)
		return err
	}, true, false, true, true},
	{"checkpoints", func(ctx context.Context, c *rpc.Client) error { _, err := c.Checkpoints(ctx, "812"); return err }, true, false, true, true},
	{"verify", func(ctx context.Context, c *rpc.Client) error {
		_, err := c.Verify(ctx, []string{"812/1"}, nil)
		return err
	}, true, false, true, true},
	{"gc", func(ctx context.Context, c *rpc.Client) error { _, err := c.GC(ctx, &rpc.GCRequest{}, nil); return err }, false, false, true, true},
	{"gc, dry", func(ctx context.Context, c *rpc.Client) error {
		_, err := c.GC(ctx, &rpc.GCRequest{DryRun: true}, nil)
		return err
	}, false, false, true, true},
	{"delete", func(ctx context.Context, c *rpc.Client) error {
		_, err := c.Delete(ctx, []string{"812/1"})
		return err
	}, true, false, true, true},
	{"export", func(ctx context.Context, c *rpc.Client) error {
		return c.Export(ctx, "mini/812/1", func(*rpc.ExportPiece) error { return nil })
	}, true, false, true, true},
}

// TestDoctorMeasures: doctor writes a large file for root, SlurmUser and operators only.
func TestDoctorMeasures(t *testing.T) {
	for uid, want := range map[uint32]int32{0: 1, apitest.SlurmUser: 1, apitest.Alice: 0, apitest.Bob: 0} {
		d := startDaemon(t)
		if _, err := d.clientOf(t, uid).Doctor(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.written.Load(); got != want || d.looks.Load() != 1 {
			t.Errorf("user %d: %d looks, of which %d may write; want 1 and %d", uid, d.looks.Load(), got, want)
		}
	}
}

// TestPingHealth: a ping has the node's health if the caller asks for that.
func TestPingHealth(t *testing.T) {
	d := startDaemon(t)
	c := d.clientOf(t, 0)
	if reply, err := c.Ping(t.Context()); err != nil || reply.GetHealth() != nil {
		t.Errorf("Ping without health = %v, %v", reply, err)
	}
	if reply, err := c.PingHealth(t.Context()); err != nil || reply.GetVersion() != "1.2.3" || reply.GetHealth().GetDevices() != "soft" {
		t.Errorf("a ping that asks for the health: %v, %v", reply, err)
	}
	if _, err := d.clientOf(t, apitest.Alice).PingHealth(t.Context()); !errors.Is(err, rpc.ErrDenied) {
		t.Errorf("asked by a user: %v", err)
	}
}

// TestWhoMay makes every kind of request as every kind of user.
func TestWhoMay(t *testing.T) {
	d := startDaemon(t, "nobody") // user 65534 on all systems
	for _, r := range requests {
		for _, who := range []struct {
			name string
			uid  uint32
			may  bool
		}{
			{"owner", apitest.Alice, r.owner}, {"another user", apitest.Bob, r.others}, {"unknown user", 4_000_000_000, r.others},
			{"operator", 65534, r.operators}, {"slurm", apitest.SlurmUser, r.daemons}, {"root", 0, r.daemons},
		} {
			t.Run(r.name+" by "+who.name, func(t *testing.T) {
				before := len(d.Asked())
				err := r.ask(t.Context(), d.clientOf(t, who.uid))
				if who.may && err != nil {
					t.Errorf("refused: %v; want success", err)
				}
				if !who.may {
					if !errors.Is(err, rpc.ErrDenied) {
						t.Errorf("error %v; want ErrDenied", err)
					}
					if asked := d.Asked()[before:]; len(asked) > 0 {
						t.Errorf("denied, but the conductor was asked to %s", asked)
					}
				}
			})
		}
	}
	if !strings.Contains(d.log.String(), "request denied") || !strings.Contains(d.log.String(), "uid=1002") {
		t.Errorf("the log does not tell of refusals:\n%s", d.log)
	}
}

func TestOperatorsByGroup(t *testing.T) {
	d := startDaemon(t, "@nogroup")
	if _, err := d.clientOf(t, 65534).Show(t.Context(), "812"); err != nil {
		t.Errorf("member of the group: %v", err)
	}
	if _, err := d.clientOf(t, apitest.Bob).Show(t.Context(), "812"); !errors.Is(err, rpc.ErrDenied) {
		t.Errorf("Show by a user of no group: %v; want ErrDenied", err)
	}
}

// TestOthersAreLeftOut: lists have only the checkpoints that the caller may see.
func TestOthersAreLeftOut(t *testing.T) {
	d := startDaemon(t)
	for _, tt := range []struct {
		uid  uint32
		want string
	}{
		{apitest.Alice, "mini/812/1 mini/812/2 mini/814/1 mini/814/2"},
		{apitest.Bob, "mini/813/1 mini/816/4"},
		{apitest.Operator, ""},
		{0, "mini/812/1 mini/812/2 mini/813/1 mini/814/1 mini/814/2 mini/811/1 mini/816/4"},
	} {
		list, err := d.clientOf(t, tt.uid).Checkpoints(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, c := range list {
			ids = append(ids, c.GetId())
		}
		if got := strings.Join(ids, " "); got != tt.want {
			t.Errorf("user %d sees %q, want %q", tt.uid, got, tt.want)
		}
		if _, err := d.clientOf(t, tt.uid).Verify(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		asked := d.Asked()
		if got := asked[len(asked)-1]; got != "verify "+strings.Replace(tt.want, " mini/814/2", "", 1) { // which is not there yet
			t.Errorf("user %d: the conductor was asked to %s", tt.uid, got)
		}
	}
}

// TestDamaged: the owner is shown the damaged checkpoint and may not delete it, because the owner is only a guess.
func TestDamaged(t *testing.T) {
	d := startDaemon(t)
	bob, root := d.clientOf(t, apitest.Bob), d.clientOf(t, 0)
	ctx := t.Context()
	if r, err := bob.Verify(ctx, nil, nil); err != nil || len(r.GetProblems()) != 1 {
		t.Errorf("Verify by the owner = %v, %v; want one damaged checkpoint", r, err)
	}
	none := func(*rpc.ExportPiece) error { return nil }
	before := len(d.Asked())
	if err := bob.Export(ctx, "816/4", none); !errors.Is(err, rpc.ErrDenied) {
		t.Errorf("Export of a damaged checkpoint: %v; want ErrDenied", err)
	}
	if _, err := bob.Delete(ctx, []string{"813/1", "816/4"}); !errors.Is(err, rpc.ErrDenied) {
		t.Errorf("Delete of a damaged checkpoint: %v; want ErrDenied", err)
	}
	if _, err := root.Delete(ctx, nil); !errors.Is(err, rpc.ErrInvalid) {
		t.Errorf("Delete without names: %v; want ErrInvalid", err)
	}
	if asked := d.Asked()[before:]; len(asked) > 0 {
		t.Errorf("the conductor was asked to %s", asked)
	}
	if got, err := root.Delete(ctx, []string{"816/4", "mini/816/4", "813/1"}); err != nil || strings.Join(got, " ") != "mini/816/4 mini/813/1" {
		t.Errorf("Delete by root = %v, %v; want mini/816/4 and mini/813/1", got, err)
	}
}

// TestWrongRequests: a wrong request is refused before any action, and the error names the mistake.
func TestWrongRequests(t *testing.T) {
	d := startDaemon(t)
	alice, root := d.clientOf(t, apitest.Alice), d.clientOf(t, 0)
	ctx := t.Context()
	show := func(job string) error { _, err := alice.Show(ctx, job); return err }
	checkpoint := func(reason string) error {
		_, err := alice.Checkpoint(ctx, &rpc.CheckpointRequest{Job: "812", Reason: reason}, nil)
		return err
	}
	verify := func(names ...string) error { _, err := alice.Verify(ctx, names, nil); return err }
	drain := func(job string) error {
		_, err := root.Call(ctx, &rpc.CallRequest{Job: job, Attempt: 3, Call: &rpc.CallRequest_Drain{Drain: &rpc.DrainCall{}}})
		return err
	}
	for _, tt := range []struct {
		name string
		err  error
		kind error
		want string
	}{
		{"no job", show(""), rpc.ErrInvalid, `job "": want a number, as in 812, 812_3 or 812+1`},
		{"path as job", show("../812"), rpc.ErrInvalid, `job "../812": want a number, as in 812, 812_3 or 812+1`},
		{"option as job", show("--all"), rpc.ErrInvalid, `job "--all": want a number, as in 812, 812_3 or 812+1`},
		{"huge job", show("99999999999"), rpc.ErrInvalid, `job "99999999999": want a number, as in 812, 812_3 or 812+1`},
		{"unknown job", show("7"), rpc.ErrNoJob, "job 7: no such job"},
		{"unknown error", show("666"), rpc.ErrInternal, "scontrol: \x1b[2Jno answer"},
		{"two lines", checkpoint("a\nb"), rpc.ErrInvalid, `reason: want one line without control characters, found '\n'`},
		{"escape", checkpoint("a\x1b[2J"), rpc.ErrInvalid, `reason: want one line without control characters, found '\x1b'`},
		{"long reason", checkpoint(strings.Repeat("x", 201)), rpc.ErrInvalid, "reason: want text of at most 200 bytes"},
		{"no number", verify("812"), rpc.ErrInvalid, `checkpoint "812": want JOB/NUMBER, as in 812/3 or mini/812/3`},
		{"path as checkpoint", verify("mini/../812/3"), rpc.ErrInvalid, `checkpoint "mini/../812/3": want JOB/NUMBER, as in 812/3 or mini/812/3`},
		{"one is missing", verify("812/1", "812/9"), rpc.ErrNoCheckpoint, "checkpoint 812/9: there is none of that name"},
		{"one is another's", verify("812/1", "813/1"), rpc.ErrDenied, "verify: not permitted: job 813 belongs to another user"},
		{"untrusted one", verify("816/4"), rpc.ErrDenied, "verify: not permitted: job 816 belongs to another user"},
		{"very many", verify(slices.Repeat([]string{"812/1"}, 1001)...), rpc.ErrInvalid, "verify: 1001 checkpoints named, at most 1000 at once"},
		{"negative age", func() error {
			_, err := root.GC(ctx, &rpc.GCRequest{OlderThan: durationpb.New(-time.Second)}, nil)
			return err
		}(), rpc.ErrInvalid, "gc: age seconds:-1: want none or a positive one"},
		{"none to keep", func() error {
			_, err := root.GC(ctx, &rpc.GCRequest{Keep: new(uint32)}, nil)
			return err
		}(), rpc.ErrInvalid, "gc: keep 0: want at least 1"},
		{"call without job", drain(""), rpc.ErrInvalid, `job "": want a number, as in 812, 812_3 or 812+1`},
		{"call that fails", drain("812"), rpc.ErrSpace, "no space: 3 GiB free, 9 GiB needed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// protobuf varies the spaces of its output on purpose.
			got := strings.ReplaceAll(fmt.Sprint(tt.err), "  ", " ")
			if !errors.Is(tt.err, tt.kind) || got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	if asked := d.Asked(); !slices.Equal(asked, []string{"call 812 3, from n7"}) {
		t.Errorf("the conductor was asked: %q", asked)
	}
}

func TestCheckpointTellsHowFarItIs(t *testing.T) {
	d := startDaemon(t)
	var phases []string
	made, err := d.clientOf(t, apitest.Alice).Checkpoint(t.Context(), &rpc.CheckpointRequest{Job: "812", Reason: "before the holidays"}, func(p *rpc.Progress) {
		phases = append(phases, p.GetPhase())
	})
	if err != nil || made.GetId() != "mini/812/3" || made.GetReason() != "before the holidays" {
		t.Errorf("checkpoint made: %v, %v; want mini/812/3 with the reason", made, err)
	}
	// Phases that come faster than the reader reads are dropped, never the last.
	if len(phases) == 0 || phases[len(phases)-1] != "dump" {
		t.Errorf("phases of the progress = %q, want dump at the end", phases)
	}
}

func TestObstaclesArrive(t *testing.T) {
	d := startDaemon(t)
	_, err := d.clientOf(t, apitest.Bob).Checkpoint(t.Context(), &rpc.CheckpointRequest{Job: "813"}, nil)
	var e *rpc.Error
	if !errors.As(err, &e) || !errors.Is(err, rpc.ErrObstacle) || len(e.Obstacles) != 2 || e.Obstacles[0].GetWhat() != "holds a terminal (/dev/pts/3)" || e.Obstacles[1].GetPid() != 313 {
		t.Errorf("error %v: %+v; want an obstacle of two processes, a terminal", err, e)
	}
}

// TestHangUp: the attempt ends when its caller goes away.
func TestHangUp(t *testing.T) {
	d := startDaemon(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := d.clientOf(t, apitest.Alice).Checkpoint(ctx, &rpc.CheckpointRequest{Job: "812_3"}, func(*rpc.Progress) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the caller's error = %v, want Canceled", err)
	}
	for deadline := time.Now().Add(time.Minute); !slices.Contains(d.Asked(), "checkpoint 812_3 given up"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the conductor was not told: %q", d.Asked())
		}
	}
}

func TestDoctor(t *testing.T) {
	d := startDaemon(t)
	reply, err := d.clientOf(t, apitest.Bob).Doctor(t.Context())
	if err != nil || len(reply.GetFindings()) != 2 || reply.GetFindings()[1].GetLevel() != rpc.Finding_FAIL || reply.GetVersion() != "1.2.3" {
		t.Errorf("Doctor = %v, %v; want two findings, the second a failure", reply, err)
	}
}

// TestExportLeavesHolesOut reads an export of a file with a hole in the middle.
func TestExportLeavesHolesOut(t *testing.T) {
	d := startDaemon(t)
	var sent, holeless int
	got := make(map[string][]byte)
	var name string
	err := d.clientOf(t, apitest.Alice).Export(t.Context(), "812/1", func(p *rpc.ExportPiece) error {
		if p.GetFile() != "" {
			name = p.GetFile()
			got[name] = make([]byte, p.GetSize())
		}
		copy(got[name][p.GetOffset():], p.GetData())
		sent += len(p.GetData())
		if len(p.GetData()) > 0 {
			holeless++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Concat([]byte("begin"), make([]byte, 2<<20), bytes.Repeat([]byte("e"), 1<<20))
	if !bytes.Equal(got["n1/0/pages-1.img"], want) || string(got["n1/node/meta.json"]) != `{"hello": "x"}` {
		t.Error("other files arrived than were sent")
	}
	if sent >= len(want) {
		t.Errorf("%d bytes sent for a file of %d with a hole of 2 MiB", sent, len(want))
	}
	err = d.clientOf(t, apitest.Alice).Export(t.Context(), "814/1", func(*rpc.ExportPiece) error { return nil })
	if !errors.Is(err, rpc.ErrDamaged) || err.Error() != "damaged: file n1/0/pages-1.img: 5 bytes, 3145733 expected" {
		t.Errorf("Export of a file that is too short: %v; want ErrDamaged", err)
	}
	mine := errors.New("my disk is full")
	if err := d.clientOf(t, apitest.Alice).Export(t.Context(), "812/1", func(*rpc.ExportPiece) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("error of the receiver: %v", err)
	}
}

func dumpCall(ticket string) *rpc.CallRequest {
	return &rpc.CallRequest{Job: "812", Attempt: 1, Call: &rpc.CallRequest_Dump{Dump: &rpc.DumpCall{Ticket: ticket}}}
}

func TestLargeCalls(t *testing.T) {
	d := startDaemon(t)
	large := strings.Repeat("x", 8<<20)
	reply, err := d.clientOf(t, 0).Call(t.Context(), dumpCall(large))
	if err != nil || string(reply.GetDump().GetPart()) != large {
		t.Errorf("Call with 8 MiB by root: %v; want the same bytes back", err)
	}
	if _, err := d.clientOf(t, apitest.Alice).Call(t.Context(), dumpCall(large)); !errors.Is(err, rpc.ErrBusy) ||
		!strings.Contains(err.Error(), "at most 65536 are accepted") {
		t.Errorf("Call with 8 MiB by a user: %v; want a refusal", err)
	}
}
