// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package localsock_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock/localsocktest"
)

// connectBoth returns both ends of a connection through a socket at path.
func connectBoth(t *testing.T, path string) (server, client *net.UnixConn) {
	t.Helper()
	l, err := localsock.Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = localsock.Dial(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server, client
}

func TestListen(t *testing.T) {
	for name, path := range map[string]string{
		"short path": filepath.Join(t.TempDir(), "s"),
		"long path":  filepath.Join(t.TempDir(), strings.Repeat("long", 40), "s"),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second socket replaces the first
				server, _ := connectBoth(t, path)
				cred, err := localsock.PeerCredentials(server)
				if err != nil || int(cred.Pid) != os.Getpid() || int(cred.Uid) != os.Getuid() {
					t.Errorf("the peer is %+v, %v", cred, err)
				}
			}
			if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("mode of the socket = %v, %v; want 0600", st.Mode(), err)
			}
		})
	}
}

// TestReceive shows that descriptors arrive, and that the descriptors of a refused packet are
// closed: the other end of their pipe gets the end of file.
func TestReceive(t *testing.T) {
	for name, tt := range map[string]struct {
		packet string
		files  int
		want   error
	}{
		"no descriptors":      {"packet", 0, nil},
		"as many as accepted": {"packet", 2, nil},
		"one too many":        {"packet", 3, localsock.ErrTooMuch},
		"a longer packet":     {"a longer packet", 2, localsock.ErrTooMuch},
		"an empty packet":     {"", 2, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := connectBoth(t, filepath.Join(t.TempDir(), "s"))
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if err := r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			var same []*os.File
			for range tt.files {
				same = append(same, w)
			}
			fds := localsock.Descriptors(same)
			if tt.packet == "" {
				localsocktest.SendEmptyPacket(t, client, fds...)
			} else if err := localsock.SendNow(client, []byte(tt.packet), fds...); err != nil {
				t.Fatal(err)
			}
			w.Close()
			n, files, err := localsock.Receive(server, make([]byte, 8), 2)
			if !errors.Is(err, tt.want) || err == nil && (n != len(tt.packet) || len(files) != tt.files) {
				t.Errorf("Receive = %d bytes, %d files, %v", n, len(files), err)
			}
			localsock.CloseAll(files)
			if b, err := io.ReadAll(r); err != nil || len(b) != 0 {
				t.Errorf("the pipe has %q, %v", b, err)
			}
		})
	}
}

// TestTryWithDescriptor: the error is the function's. With a closed file the function is not called, and
// TryWithDescriptor returns an error.
func TestTryWithDescriptor(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	errTried := errors.New("tried")
	for _, want := range []error{nil, errTried} {
		called := -1
		err := localsock.TryWithDescriptor(f, func(fd int) error {
			called = fd
			return want
		})
		if called < 0 || !errors.Is(err, want) {
			t.Errorf("called with descriptor %d, error %v, want %v", called, err, want)
		}
	}
	f.Close()
	called := false
	if err := localsock.TryWithDescriptor(f, func(int) error { called = true; return nil }); err == nil || called {
		t.Errorf("with a closed file: error %v, and the function was called: %v", err, called)
	}
}

// TestReceiveBeforeEnd: a packet is received, though the kernel has told the end before. Linux does so at times; here an empty
// packet, which reads as the end, stands for that.
func TestReceiveBeforeEnd(t *testing.T) {
	server, client := connectBoth(t, filepath.Join(t.TempDir(), "s"))
	localsocktest.SendEmptyPacket(t, client)
	if err := localsock.SendNow(client, []byte("packet")); err != nil {
		t.Fatal(err)
	}
	client.Close()
	b := make([]byte, 8)
	if n, _, err := localsock.Receive(server, b, 1); err != nil || string(b[:n]) != "packet" {
		t.Errorf("Receive = %q, %v", b[:n], err)
	}
	if _, _, err := localsock.Receive(server, b, 1); !errors.Is(err, io.EOF) {
		t.Errorf("Receive after the last packet: %v, want io.EOF", err)
	}
}

func TestReceiveEnd(t *testing.T) {
	server, client := connectBoth(t, filepath.Join(t.TempDir(), "s"))
	client.Close()
	if _, _, err := localsock.Receive(server, make([]byte, 8), 1); !errors.Is(err, io.EOF) {
		t.Errorf("Receive after the peer's close: %v; want io.EOF", err)
	}
}

func TestInterruptAtEnd(t *testing.T) {
	server, _ := connectBoth(t, filepath.Join(t.TempDir(), "s"))
	ctx, cancel := context.WithCancel(t.Context())
	stop := localsock.InterruptAtEnd(ctx, server.SetDeadline)
	defer stop()
	cancel()
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read after the end of ctx: %v; want ErrDeadlineExceeded", err)
	}
}
