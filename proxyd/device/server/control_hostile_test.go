// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock/localsocktest"
)

// connectPair returns a controller, and the other end of its connection.
func connectPair(t *testing.T) (*Controller, *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
		t.Cleanup(func() { c.Close() })
	}
	return NewController(ends[0]), ends[1]
}

// keptFiles is a Sink that remembers its files.
type keptFiles struct {
	mu    sync.Mutex
	files map[string]string // the bytes of complete files
	bad   map[string]error  // the errors of files that were not completed
}

type keptFile struct {
	bytes.Buffer
	name string
	k    *keptFiles
}

func newKept() *keptFiles { return &keptFiles{files: map[string]string{}, bad: map[string]error{}} }

func (k *keptFiles) Create(name string) (io.WriteCloser, error) {
	if name == "full" {
		return nil, unix.ENOSPC
	}
	return &keptFile{name: name, k: k}, nil
}

func (f *keptFile) Close() error {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	f.k.files[f.name] = f.String()
	return nil
}

func (f *keptFile) CloseWithError(err error) error {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	f.k.bad[f.name] = err
	return nil
}

// liar is a server that sends the messages of the test.
type liar struct {
	t    *testing.T
	conn *net.UnixConn
	held []*os.File
}

func (l *liar) sendReply(r *reply) { _ = sendMessage(l.conn, r, nil) }

// receivePipe hears an answer, and returns the pipe that has come with the answer.
func (l *liar) receivePipe() *os.File {
	var o order
	f, err := receiveMessage(l.conn, &o)
	if err != nil || f == nil {
		l.t.Errorf("no pipe: %+v, %v", o, err)
		return nil
	}
	l.held = append(l.held, f)
	return f
}

// sendFile sends a file and claims a length.
func (l *liar) sendFile(name, text string, length int) {
	l.sendReply(&reply{Create: name})
	f := l.receivePipe()
	if f == nil {
		return
	}
	if _, err := io.WriteString(f, text); err != nil {
		l.t.Error(err)
	}
	f.Close()
	l.sendReply(&reply{Close: name, Length: int64(length)})
	var o order
	if _, err := receiveMessage(l.conn, &o); err == nil && o.File != name {
		l.t.Errorf("answer to a close = %+v, want the name of the file", o)
	}
}

// sendReport sends the result of a save.
func (l *liar) sendReport(names ...string) {
	l.sendReply(&reply{Part: fmt.Appendf(nil, `{"files":["%s"]}`, strings.Join(names, `","`))})
	l.sendReply(&reply{Done: true})
}

// TestHostileServer: with any messages from a server, its parent's order ends with an error that has the reason, and
// the parent takes no incomplete save for a complete save.
func TestHostileServer(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(l *liar)
		says string // "": no error
	}{
		{"honest", func(l *liar) { l.sendFile("state.json", "{}", 2); l.sendReport("state.json") }, ""},
		{"ends at once", func(l *liar) { l.conn.Close() }, "EOF"},
		{"no JSON", func(l *liar) { _, _ = l.conn.Write([]byte("hello")) }, "invalid character"},
		{"a long message", func(l *liar) {
			_, _ = l.conn.Write(append([]byte(`{"error":"`), bytes.Repeat([]byte("x"), maxMessage)...))
		}, "a message is too long"},
		{"a long answer", func(l *liar) {
			for range maxAnswer/maxPart + 2 {
				l.sendReply(&reply{Part: make([]byte, maxPart)})
			}
		}, "an answer of more than"},
		{"two descriptors", func(l *liar) {
			fd := int(os.Stdin.Fd())
			_, _, _ = l.conn.WriteMsgUnix([]byte("{}"), unix.UnixRights(fd, fd), nil)
		}, "a message with 2 files"},
		{"a slash", func(l *liar) { l.sendReply(&reply{Create: "../x"}) }, "is no file of a save"},
		{"a hidden file", func(l *liar) { l.sendReply(&reply{Create: ".x"}) }, "is no file of a save"},
		{"a long name", func(l *liar) { l.sendReply(&reply{Create: strings.Repeat("x", 65)}) }, "is no file of a save"},
		{"reads in a save", func(l *liar) { l.sendReply(&reply{Open: "state.json"}) }, "no part of the order"},
		{"twice the same", func(l *liar) {
			l.sendFile("state.json", "{}", 2)
			l.sendReply(&reply{Create: "state.json"})
		}, "it asks for state.json as file 2"},
		{"many files", func(l *liar) {
			for i := range maxOpen + 1 {
				l.sendReply(&reply{Create: fmt.Sprint("f", i)})
			}
		}, fmt.Sprintf("as file %d, with %d under way", maxOpen+1, maxOpen)},
		{"closes what is not open", func(l *liar) { l.sendReply(&reply{Close: "state.json"}) }, "which it has not open"},
		{"closes twice", func(l *liar) {
			l.sendFile("state.json", "{}", 2)
			l.sendReply(&reply{Close: "state.json", Length: 2})
		}, "it closes \"state.json\", which it has not open"},
		{"too short", func(l *liar) { l.sendFile("state.json", "{}", 3); l.sendReport("state.json") }, "state.json: 2 bytes have come of 3"},
		{"too long", func(l *liar) { l.sendFile("state.json", "{}", 1); l.sendReport("state.json") }, "state.json: 2 bytes have come of 1"},
		{"dies in the middle", func(l *liar) {
			l.sendReply(&reply{Create: "state.json"})
			_, _ = io.WriteString(l.receivePipe(), "{}")
			l.conn.Close()
			l.held[0].Close()
		}, "EOF"},
		{"done, and a file is not closed", func(l *liar) {
			l.sendFile("state.json", "{}", 2)
			l.sendReply(&reply{Create: "more"})
			l.receivePipe()
			l.sendReport("state.json")
		}, "more has not come to its end"},
		{"no state", func(l *liar) { l.sendReport("state.json") }, "it has saved no state.json"},
		{"a file that has not come", func(l *liar) { l.sendFile("state.json", "{}", 2); l.sendReport("state.json", "blocks-1-0") }, "it has not saved blocks-1-0"},
		{"names a path", func(l *liar) { l.sendFile("state.json", "{}", 2); l.sendReport("state.json", "../x") }, "it names 2 files"},
		{"an error for the terminal", func(l *liar) { l.sendReply(&reply{Done: true, Error: "\x1b[2J\nhello"}) }, " [2J hello"},
		{"a full sink", func(l *liar) {
			l.sendReply(&reply{Create: "full"})
			var o order
			if _, err := receiveMessage(l.conn, &o); err != nil || o.Error == "" {
				l.t.Errorf("answer to a create = %+v, %v, want a refusal", o, err)
			}
			l.sendReply(&reply{Done: true, Error: "so it is not saved"})
		}, "full: no space left on device"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, conn := connectPair(t)
			l := &liar{t: t, conn: conn}
			done := make(chan struct{})
			go func() {
				defer close(done)
				var o order
				if _, err := receiveMessage(conn, &o); err != nil || o.Do != "save" {
					t.Errorf("first message = %+v, %v, want the order save", o, err)
				}
				tt.do(l)
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			sink := newKept()
			_, err := c.Save(ctx, sink, SaveOptions{})
			c.Close()
			<-done
			for _, f := range l.held {
				f.Close()
			}
			switch {
			case tt.says == "" && (err != nil || sink.files["state.json"] != "{}"):
				t.Error(err, sink.files)
			case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
				t.Error(err)
			}
			if ctx.Err() != nil {
				t.Error("the order did not end before its deadline")
			}
			if text, ok := sink.files["state.json"]; ok && text != "{}" || len(sink.bad) > 0 && err == nil {
				t.Errorf("files = %q, incomplete = %v, want no incomplete save", sink.files, sink.bad)
			}
		})
	}
}

// TestDescriptorsAreClosed: descriptors that come with a message that is refused are closed. A server that is a user's process
// could otherwise use up the descriptors of the parent, which is root's daemon.
func TestDescriptorsAreClosed(t *testing.T) {
	for name, text := range map[string]string{"an empty message with two": "", "no JSON, and one": "hello", "a message with two": "{}"} {
		t.Run(name, func(t *testing.T) {
			c, conn := connectPair(t)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			files := []*os.File{w}
			if text != "hello" {
				files = append(files, w)
			}
			fds := localsock.Descriptors(files)
			if text == "" {
				localsocktest.SendEmptyPacket(t, conn, fds...)
			} else if err := localsock.Send(conn, []byte(text), fds...); err != nil {
				t.Fatal(err)
			}
			w.Close()
			if _, err := c.Save(t.Context(), newKept(), SaveOptions{}); err == nil {
				t.Error("the save has no error")
			}
			if err := r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("a descriptor stayed open: %v", err)
			}
		})
	}
}

// TestSilentServer: an order ends with its ctx, at each point where the server may keep its parent waiting.
func TestSilentServer(t *testing.T) {
	for name, do := range map[string]func(l *liar){
		"says nothing": func(*liar) {},
		"holds a pipe": func(l *liar) {
			l.sendReply(&reply{Create: "state.json"})
			l.receivePipe()
			l.sendReply(&reply{Close: "state.json"})
		},
		"does not listen": func(l *liar) {
			for i := range maxOpen {
				l.sendReply(&reply{Create: fmt.Sprint("f", i)})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, conn := connectPair(t)
			l := &liar{t: t, conn: conn}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				var o order
				if _, err := receiveMessage(conn, &o); err != nil || o.Do != "save" {
					t.Errorf("first message = %+v, %v, want the order save", o, err)
				}
				do(l)
				cancel()
			}()
			sink := newKept()
			if _, err := c.Save(ctx, sink, SaveOptions{}); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if len(sink.files) > 0 {
				t.Errorf("files of a cancelled save = %q, want no file", sink.files)
			}
		})
	}
}

// stuck is a Sink that tells of its first write, and may refuse it.
type stuck struct {
	at     chan struct{}
	refuse error
	once   sync.Once
}

func (s *stuck) Create(string) (io.WriteCloser, error) { return s, nil }
func (s *stuck) Close() error                          { return nil }

func (s *stuck) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.at) })
	return len(b), s.refuse
}

// TestSinkFails: a parent with a failing sink gets its own error, and the job runs on. The job also runs on when
// the parent goes away.
func TestSinkFails(t *testing.T) {
	s := serverOf(t, "test", nil, testMemory)
	_, cs := attachProcess(t, s, 1)
	cs[0].beginContext(ctxA, 0)
	a := cs[0].alloc(4 * pipeSize)
	cs[0].post("cuMemsetD8Async", a, uint8(1), uint64(4*pipeSize), uint64(0))
	path, _ := serveControl(t, s)
	full := &stuck{at: make(chan struct{}), refuse: unix.ENOSPC}
	c := connectController(t, path)
	if _, err := c.Save(t.Context(), full, SaveOptions{}); !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
	cs[0].must("cuCtxSynchronize") // the client runs on

	ctx, cancel := context.WithCancel(t.Context())
	gone := &stuck{at: make(chan struct{})}
	go func() {
		<-gone.at
		cancel()
	}()
	if _, err := c.Save(ctx, gone, SaveOptions{}); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c.Close()
	next := connectController(t, path)
	if st, err := next.Status(t.Context()); err != nil {
		t.Error(err)
	} else if st.Stopped { // the stop was done before
		if err := next.Resume(t.Context()); err != nil {
			t.Error(err)
		}
	}
	cs[0].must("cuCtxSynchronize")
	if _, err := next.Save(t.Context(), Folder(t.TempDir()), SaveOptions{}); err != nil {
		t.Error(err)
	}
}

// badSource has a file that cannot be read to its end.
type badSource struct {
	Folder
	name string
}

func (b badSource) Open(name string) (io.ReadCloser, error) {
	f, err := b.Folder.Open(name)
	if err != nil || name != b.name {
		return f, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(f, 10), errReader{}), f}, nil
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, unix.EIO }

// TestSourceFails: a parent with a failing source gets its own error, and the server knows that its state cannot
// be used.
func TestSourceFails(t *testing.T) {
	folder := Folder(t.TempDir())
	s := serverOf(t, "test", nil, testMemory)
	_, cs := attachProcess(t, s, 1)
	cs[0].beginContext(ctxA, 0)
	a := cs[0].alloc(100)
	cs[0].post("cuMemsetD8Async", a, uint8(1), uint64(100), uint64(0))
	r := saveJob(t, s, folder, SaveOptions{})
	for _, name := range r.Files {
		t.Run(name, func(t *testing.T) {
			next := serverOf(t, "other", nil, testMemory)
			path, _ := serveControl(t, next)
			c := connectController(t, path)
			if err := c.Restore(t.Context(), badSource{folder, name}); !errors.Is(err, unix.EIO) {
				t.Error(err)
			}
			if st, err := c.Status(t.Context()); err != nil || !strings.HasPrefix(st.Failed, "restore: ") {
				t.Errorf("Status = %+v, %v, want a failed restore", st, err)
			}
		})
	}
}
