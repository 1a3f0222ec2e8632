// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package pmitest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nowhere is a hub's place at which no hub listens; a task that is alone in its step does not use its hub.
const nowhere = "127.0.0.1:1:0123456789abcdef0123456789abcdef"

// exchange is a command and its answer.
type exchange struct{ say, want string }

func checkExchanges(t *testing.T, version int, exchanges []exchange) {
	s := startTask(t, nowhere, 0, 1, 0)
	s.initialize(version)
	for _, x := range exchanges {
		if got := s.askServer(version, x.say); got != x.want {
			t.Errorf("%s\n got %q\nwant %q", x.say, got, x.want)
		}
	}
}

func TestPMI1(t *testing.T) {
	t.Parallel()
	refused := func(command string) string {
		return "rc=-1 msg=singularity:_srun_--mpi=pmi2_has_no_" + command + "_in_a_protected_job"
	}
	checkExchanges(t, 1, []exchange{
		{"cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"},
		{"cmd=get_universe_size", "cmd=universe_size rc=0 size=1"},
		{"cmd=get_appnum", "cmd=appnum rc=0 appnum=0"},
		{"cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=s0-1"},
		{"cmd=get kvsname=s0-1 key=PMI_process_mapping", "cmd=get_result rc=0 value=(vector,(0,1,1))"},
		{"cmd=get kvsname=s0-1 key=nothing", "cmd=get_result rc=-1 msg=no_such_key"},
		{"cmd=put kvsname=s0-1 key=a value=b=c;d", "cmd=put_result rc=0"},
		{"cmd=get kvsname=s0-1 key=a", "cmd=get_result rc=0 value=b=c;d"},
		{"cmd=put kvsname=s0-1 key=a value=e", "cmd=put_result rc=0"},
		{"cmd=get kvsname=s0-1 key=a", "cmd=get_result rc=0 value=e"},
		{"cmd=put kvsname=s0-1 key=a", "cmd=put_result rc=-1 msg=no_room_for_the_key"},
		{"cmd=barrier_in", "cmd=barrier_out rc=0"},
		{"cmd=create_kvs", "cmd=newkvs " + refused("create_kvs")},
		{"cmd=getbyidx kvsname=s0-1 idx=0", "cmd=getbyidx_results " + refused("getbyidx")},
		{"mcmd=spawn\nnprocs=2\nexecname=a b\ntotspawns=1\nendcmd", "cmd=spawn_result " + refused("spawn")},
		{"cmd=dance", "cmd=dance_result " + refused("dance")},
		{"cmd=finalize", "cmd=finalize_ack rc=0"},
	})
}

func TestPMI2(t *testing.T) {
	t.Parallel()
	refused := func(command string) string {
		return "rc=-1;errmsg=singularity: srun --mpi=pmi2 has no " + command + " in a protected job;"
	}
	checkExchanges(t, 2, []exchange{
		{"cmd=fullinit;pmijobid=s0-1;pmirank=0;threaded=TRUE;", "cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=0;size=1;appnum=0;debugged=FALSE;pmiverbose=FALSE;rc=0;"},
		{"cmd=job-getid;", "cmd=job-getid-response;rc=0;jobid=s0-1;"},
		{"cmd=info-getjobattr;key=PMI_process_mapping;", "cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,1,1));"},
		{"cmd=info-getjobattr;key=universeSize;", "cmd=info-getjobattr-response;rc=0;found=TRUE;value=1;"},
		{"cmd=info-getjobattr;key=hasNameServ;", "cmd=info-getjobattr-response;rc=0;found=TRUE;value=TRUE;"},
		{"cmd=info-getjobattr;key=other;", "cmd=info-getjobattr-response;rc=0;found=FALSE;"},
		{"cmd=kvs-put;thrid=7;key=a;value=b;;c=d;", "cmd=kvs-put-response;thrid=7;rc=0;"},
		{"cmd=kvs-get;jobid=s0-1;srcid=0;key=a;", "cmd=kvs-get-response;rc=0;found=TRUE;value=b;;c=d;"},
		{"cmd=kvs-get;key=nothing;", "cmd=kvs-get-response;rc=0;found=FALSE;"},
		{"cmd=kvs-fence;thrid=8;", "cmd=kvs-fence-response;thrid=8;rc=0;"},
		{"cmd=info-putnodeattr;key=x;value=y;", "cmd=info-putnodeattr-response;rc=0;"},
		{"cmd=info-getnodeattr;key=x;wait=TRUE;", "cmd=info-getnodeattr-response;rc=0;found=TRUE;value=y;"},
		{"cmd=info-getnodeattr;key=z;wait=TRUE;", "cmd=info-getnodeattr-response;rc=0;found=FALSE;"},
		{"cmd=spawn;ncmds=1;subcmd=a;maxprocs=1;", "cmd=spawn-response;" + refused("spawn")},
		{"cmd=job-connect;jobid=other;", "cmd=job-connect-response;" + refused("job-connect")},
		{"cmd=ring;count=1;left=a;right=b;", "cmd=ring-response;" + refused("ring")},
		{"cmd=dance;", "cmd=dance-response;" + refused("dance")},
		{"cmd=finalize;", "cmd=finalize-response;rc=0;"},
	})
}

// TestNonsense: a task that does not speak PMI loses its server, and the sanitizers do not report an error of the
// server.
func TestNonsense(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]string{
		"no command":       "a=b\n",
		"a NUL":            "cmd=in\x00it\n",
		"no length":        "cmd=init pmi_version=2 pmi_subversion=0\nabcdef",
		"an empty command": "cmd=init pmi_version=2 pmi_subversion=0\n     0",
		"no semicolon":     "cmd=init pmi_version=2 pmi_subversion=0\n000005cmd=a",
		"many fields":      strings.Repeat("a ", 65) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startTask(t, nowhere, 0, 1, 0)
			if _, err := s.Write([]byte(say)); err != nil {
				t.Fatal(err)
			}
			_ = s.SetReadDeadline(time.Now().Add(patience))
			if _, err := io.ReadAll(s); err != nil {
				t.Error(err)
			}
			s.closeTask(1)
		})
	}
}

// startStep starts a step's hub and servers.
func startStep(t *testing.T, size int) []*task {
	t.Helper()
	place := startHub(t)
	var tasks []*task
	for rank := range size {
		tasks = append(tasks, startTask(t, place, rank, size, 0))
	}
	return tasks
}

// TestFence: pairs that each task puts are known to all other tasks after a fence, with PMI-1 and PMI-2, several times.
func TestFence(t *testing.T) {
	t.Parallel()
	const size = 9
	put := []string{"cmd=put kvsname=s0-1 key=k%d-%d value=%s", "cmd=kvs-put;key=k%d-%d;value=%s;"}
	get := []string{"cmd=get kvsname=s0-1 key=k%d-%d", "cmd=kvs-get;key=k%d-%d;"}
	got := []string{"cmd=get_result rc=0 value=%s", "cmd=kvs-get-response;rc=0;found=TRUE;value=%s;"}
	fence := []string{"cmd=barrier_in", "cmd=kvs-fence;"}
	fenced := []string{"cmd=barrier_out rc=0", "cmd=kvs-fence-response;rc=0;"}
	value := func(round, rank int) string { return strings.Repeat(fmt.Sprint(round, rank), 100+rank) }
	clean := func(s string) string { return strings.ReplaceAll(s, " ", "_") }
	tasks := startStep(t, size)
	for rank, s := range tasks {
		s.initialize(1 + rank%2)
	}
	for round := range 3 {
		for rank, s := range tasks {
			wire := rank % 2
			s.askServer(1+wire, fmt.Sprintf(put[wire], round, rank, clean(value(round, rank))))
		}
		for rank, s := range tasks {
			s.sendCommand(1+rank%2, fence[rank%2])
		}
		for rank, s := range tasks {
			if text := s.readAnswer(1 + rank%2); text != fenced[rank%2] {
				t.Fatalf("rank %d: the fence ends with %q", rank, text)
			}
			for other := range size {
				if text := s.askServer(1+rank%2, fmt.Sprintf(get[rank%2], round, other)); text != fmt.Sprintf(got[rank%2], clean(value(round, other))) {
					t.Fatalf("rank %d: the value of rank %d is %.80q", rank, other, text)
				}
			}
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	s := startStep(t, 2)
	s[0].initialize(1)
	s[1].initialize(2)
	for _, x := range []struct {
		rank int
		exchange
	}{
		{1, exchange{"cmd=name-lookup;name=ocean;", "cmd=name-lookup-response;rc=-1;errmsg=the name is not published;"}},
		{0, exchange{"cmd=publish_name service=ocean port=a$b", "cmd=publish_result rc=0"}},
		{0, exchange{"cmd=publish_name service=ocean port=c", "cmd=publish_result rc=-1 msg=the_name_is_published_already"}},
		{1, exchange{"cmd=name-lookup;name=ocean;", "cmd=name-lookup-response;rc=0;value=a$b;"}},
		{0, exchange{"cmd=lookup_name service=ocean", "cmd=lookup_result rc=0 port=a$b"}},
		{1, exchange{"cmd=name-unpublish;name=ocean;", "cmd=name-unpublish-response;rc=0;"}},
		{0, exchange{"cmd=lookup_name service=ocean", "cmd=lookup_result rc=-1 msg=the_name_is_not_published"}},
	} {
		if got := s[x.rank].askServer(1+x.rank, x.say); got != x.want {
			t.Errorf("%s: got %q, want %q", x.say, got, x.want)
		}
	}
}

// TestLost: a task that ends fails the fences of the other tasks, now and later. When all have ended, the same hub
// serves the step again.
func TestLost(t *testing.T) {
	t.Parallel()
	const lost = "cmd=barrier_out rc=-1 msg=another_task_of_the_step_has_ended"
	place := startHub(t)
	for range 2 {
		var tasks []*task
		for rank := range 3 {
			tasks = append(tasks, startTask(t, place, rank, 3, 0))
			tasks[rank].initialize(1)
		}
		tasks[0].sendCommand(1, "cmd=barrier_in")
		tasks[1].closeTask(0)
		if got := tasks[0].readAnswer(1); got != lost {
			t.Errorf("a task in a fence, after another has ended: got %q", got)
		}
		if got := tasks[2].askServer(1, "cmd=barrier_in"); got != lost {
			t.Errorf("a fence after another task has ended: got %q", got)
		}
		tasks[0].closeTask(0)
		tasks[2].closeTask(0)
	}
}

// TestAbort: an abort kills the programs of the other tasks, and the task's own program if it does not end by itself.
func TestAbort(t *testing.T) {
	t.Parallel()
	place := startHub(t)
	var programs []*exec.Cmd
	var tasks []*task
	for rank := range 3 {
		program := exec.Command("sleep", "60")
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = program.Process.Kill() }()
		programs = append(programs, program)
		tasks = append(tasks, startTask(t, place, rank, 4, program.Process.Pid))
		tasks[rank].initialize(2)
	}
	tasks[1].sendCommand(2, "cmd=abort;isworld=TRUE;msg=enough;")
	late := exec.Command("sleep", "60") // of a rank that connects after the abort
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = late.Process.Kill() }()
	programs = append(programs, late)
	_ = programs[0].Wait()
	startTask(t, place, 3, 4, late.Process.Pid).sendCommand(1, "cmd=init pmi_version=1 pmi_subversion=1")
	for _, rank := range []int{0, 2, 1, 3} {
		_ = programs[rank].Wait()
		if how, ok := programs[rank].ProcessState.Sys().(syscall.WaitStatus); !ok || how.Signal() != syscall.SIGKILL {
			t.Errorf("rank %d: after an abort the program ended with %v, want a kill", rank, programs[rank].ProcessState)
		}
	}
}

func dialHub(t *testing.T, place string) net.Conn {
	t.Helper()
	at := strings.Split(place, ":")
	c, err := net.Dial("tcp", at[0]+":"+at[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// isClosed waits until the other end of a connection is closed.
func isClosed(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("reading a connection that the hub must close: got %q, %v", b, err)
	}
}

func makeFrame(kind byte, body string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + string(kind) + body
}

// TestStrangers: programs that reach the hub's port without its secret do not disturb the step.
func TestStrangers(t *testing.T) {
	t.Parallel()
	place := startHub(t)
	secret := strings.Split(place, ":")[2]
	numbers := func(rank, size uint32) string {
		return string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, rank), size))
	}
	other := strings.Map(func(r rune) rune { return 'a' + (r+1)%6 }, secret)
	tasks := []*task{startTask(t, place, 0, 2, 0), startTask(t, place, 1, 2, 0)}
	tasks[0].initialize(1)
	for name, say := range map[string]string{
		"another secret": makeFrame(1, numbers(1, 2)+other),
		"no hello":       makeFrame(2, numbers(1, 2)+secret),
		"a long frame":   "\xff\xff\xff\xff\x01",
		"no such rank":   makeFrame(1, numbers(2, 2)+secret),
		"another size":   makeFrame(1, numbers(1, 3)+secret),
		"a rank again":   makeFrame(1, numbers(0, 2)+secret),
		"no size":        makeFrame(1, numbers(0, 0)+secret),
	} {
		t.Run(name, func(t *testing.T) {
			c := dialHub(t, place)
			if _, err := c.Write([]byte(say)); err != nil {
				t.Fatal(err)
			}
			isClosed(t, c)
		})
	}
	first := dialHub(t, place)
	for range 64 {
		dialHub(t, place)
	}
	isClosed(t, first) // the hub keeps no more than 64 connections that send no frame
	tasks[1].initialize(1)
	tasks[0].sendCommand(1, "cmd=barrier_in")
	for _, got := range []string{tasks[1].askServer(1, "cmd=barrier_in"), tasks[0].readAnswer(1)} {
		if got != "cmd=barrier_out rc=0" {
			t.Errorf("a fence beside strangers: got %q", got)
		}
	}
}

// TestNoHub: the init command of a task fails with a reason if the hub cannot be reached.
func TestNoHub(t *testing.T) {
	t.Parallel()
	s := startTask(t, nowhere, 0, 2, 0)
	if got := s.askServer(1, "cmd=init pmi_version=1 pmi_subversion=1"); got != "cmd=response_to_init rc=-1 msg=srun_cannot_be_reached" {
		t.Errorf("init without a hub: got %q", got)
	}
}

// TestHubThatCannotWait: a hub with a limit of descriptors that was lowered below those that it has cannot wait for any of
// them, and ends, rather than trying for ever.
func TestHubThatCannotWait(t *testing.T) {
	hub, place := startHubProcess(t)
	if err := unix.Prlimit(hub.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: 1}, nil); err != nil {
		t.Fatal(err)
	}
	address := place[:strings.LastIndex(place, ":")]
	if conn, err := net.Dial("tcp", address); err == nil { // The hub ends its wait, and begins another.
		defer conn.Close()
	}
	ended := make(chan error, 1)
	go func() { ended <- hub.Wait() }()
	select {
	case err := <-ended:
		if code := hub.ProcessState.ExitCode(); code != 1 {
			t.Errorf("the hub ends with %v, want exit code 1", err)
		}
	case <-time.After(patience):
		_ = hub.Process.Kill()
		<-ended
		t.Errorf("the hub has not ended, and used %v of processor time", hub.ProcessState.UserTime()+hub.ProcessState.SystemTime())
	}
}
