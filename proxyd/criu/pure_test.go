// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	streamer "github.com/checkpoint-restore/go-criu/v7/crit/images/img-streamer"
	pipedata "github.com/checkpoint-restore/go-criu/v7/crit/images/pipe-data"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/pstree"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/tty"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// encodeEntry returns a message in the form of images and requests.
func encodeEntry(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func encodeRequest(name string) []byte {
	return encodeEntry(&streamer.ImgStreamerRequestEntry{Filename: proto.String(name)})
}

// TestHearing: the parser returns the same requests, however the stream is cut.
func TestHearing(t *testing.T) {
	stream := slices.Concat(encodeRequest("inventory.img"), []byte{0}, encodeRequest("pages-1.img"), []byte{0})
	for cut := range len(stream) {
		h := requestParser{fds: []int{7, 8}}
		got := ""
		take := func() {
			for {
				name, ok, err := h.nextName()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					return
				}
				fd, ok, err := h.nextPipe()
				if err != nil {
					t.Fatal(err)
				}
				if !ok { // as a session keeps the name, so does this test
					h.bytes = append(encodeRequest(name), h.bytes...)
					return
				}
				got += fmt.Sprintln(name, fd)
			}
		}
		h.addBytes(stream[:cut], nil)
		take()
		h.addBytes(stream[cut:], nil)
		take()
		if got != "inventory.img 7\npages-1.img 8\n" {
			t.Fatalf("cut at %d: %q", cut, got)
		}
	}
	var h requestParser
	h.addBytes(encodeRequest("x.img")[:6], nil)
	if _, ok, err := h.nextName(); ok || err != nil {
		t.Errorf("half a request: %v, %v", ok, err)
	}
}

func TestGarbled(t *testing.T) {
	for name, b := range map[string][]byte{
		"long":   {255, 255, 255, 255},
		"path":   encodeRequest("../../etc/passwd"),
		"folder": encodeRequest("a/b"),
		"dot":    encodeRequest("."),
		"none":   encodeRequest(""),
		"bytes":  {3, 0, 0, 0, 255, 255, 255},
	} {
		var h requestParser
		h.addBytes(b, nil)
		if got, _, err := h.nextName(); !errors.Is(err, errGarbled) {
			t.Errorf("nextName of the request %q = %q, %v, want errGarbled", name, got, err)
		}
	}
	var h requestParser
	h.addBytes([]byte{0}, nil)
	if _, _, err := h.nextPipe(); !errors.Is(err, errGarbled) {
		t.Errorf("a byte without a descriptor: %v", err)
	}
}

func FuzzHearing(f *testing.F) {
	f.Add(encodeRequest("core-1.img"))
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h requestParser
		h.addBytes(b, nil)
		for {
			name, ok, err := h.nextName()
			if err != nil || !ok {
				return
			}
			if !plainName(name) {
				t.Errorf("%q came through", name)
			}
		}
	})
}

// encodeImage builds an image file.
func encodeImage(magic uint32, parts ...[]byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, commonMagic)
	return append(binary.LittleEndian.AppendUint32(b, magic), slices.Concat(parts...)...)
}

type memory map[string][]byte

func (m memory) Open(name string) (io.ReadCloser, error) {
	b, ok := m[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// TestStreamFailure: the reason for a stream's failure is recorded before criu can see that the pipe is closed, and
// fail for that reason.
func TestStreamFailure(t *testing.T) {
	for range 200 {
		s := &criuRun{broken: make(chan struct{}), pipes: map[*os.File]bool{}, wake: -1}
		s.carry = func(st *stream) error {
			return st.usePipe(func(*os.File) error { return errSource })
		}
		near, far, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.FcntlInt(far.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		far.Close()
		s.beginStream("mm-303.img").pipe <- fd
		if _, err := io.ReadAll(near); err != nil {
			t.Fatal(err)
		}
		if err := s.firstFailure(); !errors.Is(err, errSource) {
			t.Fatalf("when the pipe is closed, the failure is %v", err)
		}
		s.streams.Wait()
		near.Close()
	}
}

func TestReadTree(t *testing.T) {
	one := encodeEntry(&pstree.PstreeEntry{Pid: proto.Uint32(302), Ppid: proto.Uint32(0), Pgid: proto.Uint32(302), Sid: proto.Uint32(302), Threads: []uint32{302, 305}})
	two := encodeEntry(&pstree.PstreeEntry{Pid: proto.Uint32(303), Ppid: proto.Uint32(302), Pgid: proto.Uint32(302), Sid: proto.Uint32(302), Threads: []uint32{303}})
	got, err := readTree(bytes.NewReader(encodeImage(pstreeMagic, one, two)))
	want := []Process{{PID: 302, Session: 302, Threads: []int{305}}, {PID: 303, Parent: 302, Session: 302}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("readTree = %+v, %v, want two processes", got, err)
	}
	for name, b := range map[string][]byte{
		"empty": {}, "other": encodeImage(pipesMagic, one), "cut": encodeImage(pstreeMagic, one)[:15],
		"large": encodeImage(pstreeMagic, []byte{255, 255, 255, 127}), "garbage": encodeImage(pstreeMagic, []byte{2, 0, 0, 0, 255, 255}),
	} {
		if _, err := readTree(bytes.NewReader(b)); !errors.Is(err, errImage) {
			t.Errorf("readTree of the image %q: error %v, want errImage", name, err)
		}
	}
}

func FuzzImages(f *testing.F) {
	f.Add(encodeImage(pipesMagic, encodeEntry(&pipedata.PipeDataEntry{PipeId: proto.Uint32(5), Bytes: proto.Uint32(3)}), []byte("abc")))
	f.Add(encodeImage(pstreeMagic))
	f.Add(encodeImage(filesMagic, []byte{4, 0, 0, 0, 0x08, 0x05, 0x10, 0x01}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = readTree(bytes.NewReader(b))
		if _, size, err := (fileChanges{nameOf: (&restorer{}).nameOf}).rewriteFiles(bytes.NewReader(b)); err == nil && size != int64(len(b)) {
			t.Errorf("size %d of %d", size, len(b))
		}
		got, err := readPipeContents(memory{pipesName: b}, "pipe:[5]")
		if err == nil && len(got) > len(b) {
			t.Errorf("%d bytes of %d", len(got), len(b))
		}
	})
}

// FuzzImagesOfProgram reads the images of a program by all that look for something in them before a restore.
func FuzzImagesOfProgram(f *testing.F) {
	terminal := encodeEntry(&tty.TtyInfoEntry{
		Id: proto.Uint32(3), Type: tty.TtyType_PTY.Enum(), Locked: proto.Bool(false), Exclusive: proto.Bool(false), PacketMode: proto.Bool(false),
		Sid: proto.Uint32(7), Pgrp: proto.Uint32(8), Rdev: proto.Uint32(uint32(unix.Mkdev(5, 2))), Pty: &tty.TtyPtyEntry{Index: proto.Uint32(2)},
	})
	// Numbers of fields: a regular file, a socket, a terminal, an eventfd.
	entries := encodeImage(filesMagic, []byte{4, 0, 0, 0, 0x08, 0x02, 0x10, 0x01}, []byte{6, 0, 0, 0, 0x08, 0x0b, 0x10, 0x01, 0x92, 0x00})
	f.Add(entries, encodeImage(terminalsMagic, terminal), encodeImage(pstreeMagic), encodeImage(remapMagic), encodeImage(idsMagic), []byte{})
	f.Fuzz(func(t *testing.T, files, terminals, tree, removed, ids, descriptors []byte) {
		src := memory{filesName: files, terminalsName: terminals, pstreeName: tree, remapName: removed, "ids-7.img": ids,
			descriptorsPrefix + "0.img": descriptors, "mm-7.img": descriptors}
		image := &Image{
			Program: Program{Outside: []OutsideSocket{{}}}, Files: []File{{Name: "mm-7.img"}},
			Processes: []Process{{PID: 7, ProcessFacts: ProcessFacts{Semaphores: []int{3}}}},
		}
		all, err := readTerminals(src)
		for _, terminal := range all {
			if err == nil && (terminal.number > maxTerminals || filepath.Base(terminal.path) != "ptmx") {
				t.Errorf("terminal %+v", terminal)
			}
		}
		_, _, _ = (&restorer{image: image, source: src}).nameForegrounds(bytes.NewReader(terminals))
		reset, _ := image.resetSockets(src)
		_, _ = recreatedPaths(src, reset, nil)
		_, _ = image.semaphoreEvents(src)
		_, _ = image.forbiddenFiles(src)
	})
}

func TestUnread(t *testing.T) {
	pipe := func(id uint32, content string) []byte {
		return append(encodeEntry(&pipedata.PipeDataEntry{PipeId: proto.Uint32(id), Bytes: proto.Uint32(uint32(len(content)))}), content...)
	}
	src := memory{pipesName: encodeImage(pipesMagic, pipe(4, "four"), pipe(5, "five"), pipe(6, ""))}
	for name, want := range map[string]string{"pipe:[5]": "five", "pipe:[6]": "", "pipe:[7]": "", "/dev/null": ""} {
		if got, err := readPipeContents(src, name); err != nil || string(got) != want {
			t.Errorf("readPipeContents of %s = %q, %v", name, got, err)
		}
	}
	if _, err := readPipeContents(memory{}, "pipe:[5]"); err != nil {
		t.Error(err)
	}
	if _, err := readPipeContents(src, "pipe:[x]"); err == nil {
		t.Error("pipe:[x] is no error")
	}
}

func TestGiveBack(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	old := strings.Repeat("old", 50_000) // more than a pipe has room for
	fmt.Fprint(w, "new")
	if err := restoreUnreadInput([]byte(old), r); err != nil {
		t.Fatal(err)
	}
	w.Close()
	got, err := io.ReadAll(r)
	if err != nil || string(got) != old+"new" {
		t.Errorf("%d bytes, ending with %q, %v", len(got), got[max(0, len(got)-5):], err)
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := restoreUnreadInput([]byte(old), file); !errors.Is(err, unix.EBADF) {
		t.Errorf("root wrote into a file of the user's: %v", err)
	}
}

// TestLend: pages that are read late have the bytes that were lent.
func TestLend(t *testing.T) {
	for _, size := range []int{4096, 64 << 10, 1 << 20} {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			t.Fatal(err)
		}
		r, to := os.NewFile(uintptr(ends[0]), "r"), os.NewFile(uintptr(ends[1]), "w")
		if _, err := unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, size); err != nil {
			t.Fatal(err)
		}
		want := make([]byte, 5<<20+12345)
		rand.NewChaCha8([32]byte{1}).Read(want)
		go func() {
			defer to.Close()
			if n, err := lendPages(to, iotest.HalfReader(bytes.NewReader(want))); err != nil || n != int64(len(want)) {
				t.Errorf("lendPages = %d, %v, want all bytes lent", n, err)
			}
		}()
		var got []byte
		for buf := make([]byte, 700_001); ; {
			n, err := r.Read(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				break
			}
			runtime.Gosched()
		}
		r.Close()
		if !bytes.Equal(got, want) {
			t.Errorf("through a pipe of %d bytes came something else", size)
		}
	}
}

func TestInherit(t *testing.T) {
	f := os.Stdout
	args, files, err := inheritOptions([3]string{"pipe:[1]", "/var/log/x", "pipe:[2]"}, [3]*os.File{f, nil, f})
	if want := "--inherit-fd fd[6]:pipe:[1] --inherit-fd fd[7]:pipe:[2]"; err != nil || strings.Join(args, " ") != want || len(files) != 2 {
		t.Errorf("inheritOptions of two pipes = %v, %v, %v", args, files, err)
	}
	args, files, err = inheritOptions([3]string{"/dev/null", "socket:[3]", "socket:[3]"}, [3]*os.File{nil, f, f})
	if want := "--inherit-fd fd[6]:socket:[3]"; err != nil || strings.Join(args, " ") != want || len(files) != 1 {
		t.Errorf("inheritOptions of a socket = %v, %v, %v", args, files, err)
	}
	if _, _, err := inheritOptions([3]string{"pipe:[1]"}, [3]*os.File{}); err == nil || err.Error() != "descriptor 0 was pipe:[1], and nothing is given for it" {
		t.Error(err)
	}
	if got := externalSockets([3]string{"socket:[9]", "socket:[9]", "pipe:[1]"}); !slices.Equal(got, []string{"unix[9]"}) {
		t.Errorf("externalSockets = %v, want unix[9] alone", got)
	}
}

// TestExplain: lines as CRIU 4.2.1 writes them.
func TestExplain(t *testing.T) {
	for line, want := range map[string]string{
		"Error (criu/files-reg.c:1790): Can't lookup mount=75 for fd=0 path=/dev/null":                                                   "process 312 (python3) has /dev/null open from outside the capsule (descriptor 0): have it open the file by a path that the job sees",
		"Error (criu/files-ext.c:98): Can't dump file 3 of that type [20666] (chr 10:229)":                                               "process 312 (python3) has something open that cannot be dumped: chr 10:229 (descriptor 3): have it close that before a checkpoint",
		"Error (criu/files-ext.c:98): Can't dump file 4 of that type [600] (unknown /dev/infiniband/uverbs0) is /dev/infiniband/uverbs0": "process 312 (python3) uses RDMA (/dev/infiniband/uverbs0): have MPI use TCP: UCX_TLS=tcp,self,sm or FI_PROVIDER=tcp",
		"Error (criu/files-ext.c:98): Can't dump file 7 of that type [20666] (chr 195:0) is /dev/nvidia0":                                "process 312 (python3) holds a GPU (/dev/nvidia0) that is not the job's virtual one: ask the site for devices.kind: cuda in proxyd.yaml",
		"Error (criu/tty.c:1830): tty: Found dangling tty with sid 20 pgid 21 (pts) on peer fd 5.":                                       "process 312 (python3) holds a terminal (pts): start it with its input from /dev/null, or below script or tmux",
		"Error (criu/sk-unix.c:881): unix: Can't dump half of stream unix connection. name: <0>; peer name: /run/munge/munge.socket.2":   "process 312 (python3) is connected to a unix socket outside the program (/run/munge/munge.socket.2): have a single task start both programs, or have them connect by TCP",
		"Error (criu/sk-inet.c:185): inet: In-flight connection (l) for 453c92":                                                          "process 312 (python3) has a connection that it has not accepted yet: it can be captured when the connection is accepted",
		"Error (criu/files-reg.c:1031): Can't dump ghost file /tmp/x of 2147483648 size, increase limit":                                 "process 312 (python3) has a removed file of 2147483648 bytes open (/tmp/x); 1G is the most: have it close the file, or remove the file only when it has closed the file",
		"Error (criu/tty.c:2286): tty: ctty inheritance detected sid/pgrp 309 (ctty pid_real 309 pty pid_real 308)":                      "the terminal of session 309, opened as /dev/tty, is open in a process that has another terminal or none: have that process close /dev/tty when it leaves the session",
		"Error (criu/cr-dump.c:388): Can't get rlimit 0: Operation not permitted":                                                        "the limits of process 312 (python3) cannot be read: the user is not the one that was given",
		"(00.02)    312: Error (criu/files-reg.c:2353): Can't open file tmp/stderr on restore: No such file or directory":                "file /tmp/stderr: No such file or directory: put the file back as it was at the checkpoint, or, if the file is the node's, have the job run on a node that has the same",
		"(00.02)    312: Error (criu/files-reg.c:2175): File home/a/data has bad size 5 (expect 7)":                                      "file /home/a/data has 5 bytes and had 7 when it was dumped: put the file back as it was at the checkpoint, or, if the file is the node's, have the job run on a node that has the same",
		"(00.02)    312: Error (criu/files-reg.c:2153): File usr/lib/x86_64-linux-gnu/libc.so.6 has bad build-ID":                        "file /usr/lib/x86_64-linux-gnu/libc.so.6 is another version than when it was dumped: put the file back as it was at the checkpoint, or, if the file is the node's, have the job run on a node that has the same",
		"Error (criu/namespaces.c:460): Can't dump nested mnt namespace for 313":                                                         "process 313 is in a mnt namespace of its own (a container in the program): have Slurm start the container: sbatch --container or srun --container",
		"(00.000861) Error (criu/util.c:1534): rlimit: Can't setup RLIMIT_NOFILE for self: Operation not permitted":                      "",
		"Error (criu/somewhere.c:1): nobody has seen this before":                                                                        "",
		"Error (criu/cr-dump.c:1975): Dumping FAILED.":                                                                                   "",
		"(00.1) Error (criu/seize.c:712): zombie 305 (comm python3) found while seizing":                                                 "process 305 (python3) is run by a debugger, or its main thread has ended while others run: end the debugger, or have the main thread wait for the others (pthread_join)",
		"(00.1) Error (compel/src/lib/infect.c:261): Unseizable non-zombie 303 found, state t, err -1/10":                                "process 303 is run by a debugger: end the debugger or tracer",
		"Error (criu/seize.c:635): Unable to freeze cgroup /sys/fs/cgroup/a (300 x 100ms attempts, timeout: 30s)":                        "the program cannot be stopped: one of its processes does not leave a system call (a hanging file system?): wait until the file system answers, or end that process",
	} {
		var l logbook
		fmt.Fprintf(&l, "(00.001) Dumping task (pid: 312 comm: python3)\n%s\n", line)
		found, ok := explainComplaints(l.allComplaints(), l.processName)
		if soon := found.end == endsSoon; soon != strings.Contains(want, "not accepted yet") {
			t.Errorf("%s: ends soon: %v", line, soon)
		}
		got := found.part.String()
		if found.part.Cure != "" {
			got += ": " + found.part.Cure
		}
		if got != want || ok != (want != "") {
			t.Errorf("%s:\n got %q\nwant %q", line, got, want)
		}
	}
}

// TestEndsSoon: a user is told when an obstacle ends exactly where the dump is tried again.
func TestEndsSoon(t *testing.T) {
	for _, o := range obstacles {
		if told, soon := o.cure == cureAccept, o.end == endsSoon; told != soon {
			t.Errorf("%q: ends soon: %t", o.text, soon)
		}
	}
}

// TestCures: a user is told what to do about each obstacle, but for a few at a restore of which the reason says all.
func TestCures(t *testing.T) {
	for _, o := range obstacles {
		if told, needed := o.cure != "", !strings.Contains(o.text, " cannot be made again"); told != needed && o.end == lasts {
			t.Errorf("%q: what to do: %q", o.text, o.cure)
		}
	}
}

// TestLogbook: a logbook does not grow, and finds lines wherever they are cut.
func TestLogbook(t *testing.T) {
	var l logbook
	line := []byte("(00.1) Error (criu/x.c:1): it went wrong\n")
	for _, b := range line {
		l.Write([]byte{b})
	}
	for range 20_000 {
		l.Write([]byte("(00.2) a line as there are many of\n"))
	}
	l.Write(bytes.Repeat([]byte("x"), 1<<20))
	for range 100 {
		l.Write([]byte("\n"))
		l.Write(line)
	}
	if e := l.allComplaints(); len(e) != maxComplaints || e[0].text != "it went wrong" {
		t.Errorf("the log has %d complaints, the first is %+v", len(e), e[0])
	}
	if n := len(l.lastLines()); n != maxTail {
		t.Errorf("the text has %d bytes", n)
	}
	if len(l.tail) > 3*maxTail || cap(l.partial) > 2*maxLine {
		t.Errorf("the buffers have grown to %d and %d bytes", len(l.tail), cap(l.partial))
	}
}

func TestFits(t *testing.T) {
	cpu := cpuFeatures("processor\t: 0\nflags\t\t: fpu sse4_2 avx2 avx512f vmx md_clear xsavec\n\nprocessor\t: 1\nflags : none\n")
	if !slices.Equal(cpu, []string{"avx2", "avx512f", "sse4_2", "xsavec"}) {
		t.Errorf("CPU features = %q, want the usable ones in order", cpu)
	}
	img := &Image{Host: Host{Arch: "amd64", CPU: cpu}}
	if err := img.Fits(Host{Arch: "amd64", CPU: append(slices.Clone(cpu), "zzz")}); err != nil {
		t.Error(err)
	}
	for want, h := range map[string]Host{
		"the CPU lacks avx512f xsavec":          {Arch: "amd64", CPU: []string{"avx2", "sse4_2"}},
		"it was dumped on amd64, this is arm64": {Arch: "arm64", CPU: cpu},
	} {
		var lacking *UnsupportedHost
		if err := img.Fits(h); !errors.As(err, &lacking) || lacking.Reason != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestSound(t *testing.T) {
	img := func(pids ...int) *Image {
		i := &Image{Program: Program{PID: 302}}
		for _, pid := range pids {
			i.Processes = append(i.Processes, Process{PID: pid})
		}
		return i
	}
	if err := img(302, 303).checkSound(); err != nil {
		t.Error(err)
	}
	for _, bad := range []*Image{img(), img(303), img(302, 1), img(302, -4)} {
		if err := bad.checkSound(); !errors.Is(err, errImage) {
			t.Errorf("checkSound of an image with processes %v: error %v, want errImage", bad.Processes, err)
		}
	}
}

// TestErrno: an error has the number with which a message ends that is in its text, and no number that is in a name.
func TestErrno(t *testing.T) {
	exit := exec.Command("false").Run()
	for _, tt := range []struct {
		name string
		err  *Error
		want unix.Errno
	}{
		{"an obstacle", &Error{Obstacle: "file /home/a: Stale file handle", Err: exit}, unix.ESTALE},
		{"criu's second error", &Error{Lines: []string{"files: no", "Can't read image: Input/output error", "no"}, Err: exit}, unix.EIO},
		{"an error that is not shown", &Error{Lines: []string{"1", "2", "3", "read: Input/output error"}, Err: exit}, 0},
		{"an obstacle in other words", &Error{Obstacle: "not enough memory", Lines: []string{"fork: Cannot allocate memory"}, Err: exit}, 0},
		{"broken off by us", &Error{Lines: []string{"read: Input/output error"}, Err: errGarbled}, 0},
		{"a name", &Error{Obstacle: "file /home/Connection refused: Connection refused/b: No such file or directory", Err: exit}, 0},
		{"nothing", &Error{Lines: []string{""}, Err: exit}, 0},
	} {
		for text, errno := range errnoTexts {
			if got := errors.Is(fmt.Errorf("restore: %w", tt.err), errno); got != (errno == tt.want) {
				t.Errorf("%s: errors.Is with %q = %t", tt.name, text, got)
			}
		}
	}
	for text, errno := range errnoTexts {
		if out, err := exec.Command("python3", "-c", fmt.Sprintf("import os; print(os.strerror(%d), end='')", errno)).Output(); err == nil && string(out) != text {
			t.Errorf("the C library writes %q for %q", out, text)
		}
	}
}
