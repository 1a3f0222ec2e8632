// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/checkpoint-restore/go-criu/v7/crit/images/fdinfo"
	sk_opts "github.com/checkpoint-restore/go-criu/v7/crit/images/sk-opts"
	sk_unix "github.com/checkpoint-restore/go-criu/v7/crit/images/sk-unix"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// A unix socket that is connected to a daemon of the node (sssd, D-Bus, syslog) cannot move with the program. A dump
// leaves the connection alone. For a restored program it is as if the daemon had been started again:
//
//	stream, seqpacket   The program reads what had arrived, then the end of the stream; a write gives EPIPE. criu is
//	                    told at the dump that the socket is external. At a restore the image says that the connection
//	                    is closed: for such a socket criu makes a pair, and closes the other end (sk-unix.c,
//	                    open_unixsk_standalone). No socket is connected to a path.
//	datagram            The socket is not connected; a write gives ENOTCONN. syslog(3) of glibc connects again then.
//	                    libsingshim-criu.so (criu_peers.c) has criu dump the socket as one that is not connected.

// OutsideSocket is a unix socket of a program that is connected to a socket of no process of the job.
type OutsideSocket struct {
	Inode    uint32 `json:"inode"`
	To       string `json:"to"` // the name of the other end, for people
	Datagram bool   `json:"datagram,omitempty"`
}

// datagramsVariable tells libsingshim-criu.so which sockets criu is to find without a peer.
const datagramsVariable = "SINGULARITY_OUTSIDE_DATAGRAMS"

// externalFlag is set in an entry that criu has made for the other end of external sockets (USK_EXTERN).
const externalFlag = 1

// maxOutside bounds the sockets that are named to criu, in arguments and in a variable of at most 128 KiB (execve(2)).
const maxOutside = 8192

// declareOutside has criu dump sockets whose other ends are outside of the job.
func (c *command) declareOutside(sockets []OutsideSocket) error {
	if len(sockets) > maxOutside {
		return fmt.Errorf("the program has %d connections to unix sockets outside of the job, %d are the most", len(sockets), maxOutside)
	}
	var datagrams []string
	for _, s := range sockets {
		inode := strconv.FormatUint(uint64(s.Inode), 10)
		if s.Datagram {
			datagrams = append(datagrams, inode)
			continue
		}
		c.args = append(c.args, "--external", "unix["+inode+"]")
	}
	if len(datagrams) == 0 {
		return nil
	}
	var err error
	c.preload, err = findLibrary()
	c.env = append(c.env, datagramsVariable+"="+strings.Join(datagrams, ","))
	return err
}

// resetSockets returns the numbers (inodes) of the connections in an image that are to be restored as closed, and of
// their other ends. The sockets of stdio are not among them: criu inherits these.
func (i *Image) resetSockets(src Source) (map[uint32]bool, error) {
	if len(i.Program.Outside) == 0 {
		return nil, nil
	}
	in, err := src.Open(filesName)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	external := map[uint32]bool{}
	var connections []*sk_unix.UnixSkEntry
	err = eachEntry(bufio.NewReader(in), filesMagic, func(b []byte) error {
		var m fdinfo.FileEntry
		if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(b, &m); err != nil {
			return fmt.Errorf("%w: %w", errImage, err)
		}
		switch s := m.GetUsk(); {
		case s == nil:
		case s.GetUflags()&externalFlag != 0:
			external[s.GetIno()] = true
		case s.GetType() != unix.SOCK_DGRAM && s.GetPeer() != 0 && !slices.Contains(i.Program.Stdio[:], fmt.Sprintf("socket:[%d]", s.GetIno())):
			connections = append(connections, s)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", filesName, err)
	}
	reset := map[uint32]bool{}
	for _, s := range connections {
		if external[s.GetPeer()] {
			reset[s.GetIno()], reset[s.GetPeer()] = true, true
		}
	}
	return reset, nil
}

// closeConnection changes the entry of a connection into the entry of a connection that the other end has closed.
func closeConnection(s *sk_unix.UnixSkEntry) {
	s.Peer = proto.Uint32(0)
	s.Shutdown = sk_opts.SkShutdown_BOTH.Enum()
	s.Name, s.NameDir, s.Deleted, s.FilePerms = []byte{}, nil, nil, nil
}
