// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// DeviceEnv is the variable in which a process finds its device server's socket.
const DeviceEnv = "SINGULARITY_SLURM_DEVICE"

// NamesEnv is the variable with Slurm's names of the job's devices.
const NamesEnv = "SINGULARITY_SLURM_DEVICE_NAMES"

// BlasEnv is the variable that chooses the library for products of matrices on software GPUs: BlasNative, or
// BlasVendor.
const (
	BlasEnv    = "SINGULARITY_SLURM_BLAS"
	BlasNative = "native" // the software GPU
	BlasVendor = "vendor" // the vendor's cuBLAS
)

// The constants of attach.h, by the same names.
const (
	attachMagic   = 0x44474e53
	attachVersion = 2
	reachableFlag = 1
	askSize       = 24
	visibleMax    = 2048
	visibleUnset  = 1<<32 - 1
)

// ErrNoAsk is Receive's error for a peer that is no shim.
var ErrNoAsk = errors.New("not what a shim asks")

// A Newcomer is a process that asks for a ring. The server answers by Welcome or Refuse, and closes the
// Newcomer.
type Newcomer struct {
	// Exec is the read end of the newcomer's pipe. Its end of file says that the process is gone, or has executed
	// another program, or has closed the pipe by mistake. A server that takes Exec and sets it to nil closes Exec
	// itself; otherwise Close does.
	Exec *os.File
	// Visible is the value of the newcomer's CUDA_VISIBLE_DEVICES, nil without that variable; Names is the value of
	// NamesEnv.
	Visible *string
	Names   string

	conn  *net.UnixConn
	probe uint64
}

// Receive reads the request of a process that has just connected; the caller sets the deadline.
// conn stays the caller's until Receive succeeds. The error for a request that no shim sends
// wraps ErrNoAsk.
func Receive(conn *net.UnixConn) (*Newcomer, error) {
	b := make([]byte, askSize+2*visibleMax+1)
	oob := make([]byte, unix.CmsgSpace(4*8))
	n, oobn, flags, _, err := conn.ReadMsgUnix(b, oob)
	if err != nil {
		return nil, fmt.Errorf("receive what a process asks: %w", err)
	}
	fds, err := receivedFDs(oob[:oobn])
	if err != nil {
		return nil, err
	}
	if flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 || len(fds) != 1 || n < askSize || binary.LittleEndian.Uint32(b) != attachMagic {
		closeAll(fds)
		return nil, fmt.Errorf("%w: %d bytes and %d descriptors", ErrNoAsk, n, len(fds))
	}
	if err := checkPipe(fds[0]); err != nil {
		closeAll(fds)
		return nil, err
	}
	p := &Newcomer{Exec: os.NewFile(uintptr(fds[0]), "exec"), conn: conn, probe: binary.LittleEndian.Uint64(b[8:])}
	if v := binary.LittleEndian.Uint32(b[4:]); v != attachVersion {
		_ = p.Refuse(unix.EPROTONOSUPPORT)
		p.Exec.Close()
		return nil, fmt.Errorf("%w: version %d, not %d", ErrNoAsk, v, attachVersion)
	}
	if !p.readVariables(b[16:n]) {
		p.Exec.Close()
		return nil, fmt.Errorf("%w: %d bytes", ErrNoAsk, n)
	}
	return p, nil
}

// readVariables reads the two texts, behind their lengths.
func (c *Newcomer) readVariables(b []byte) bool {
	visible, names, text := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), b[8:]
	if visible != visibleUnset {
		if uint64(visible) > uint64(min(len(text), visibleMax)) {
			return false
		}
		v := string(text[:visible])
		c.Visible, text = &v, text[visible:]
	}
	if names != visibleUnset {
		if uint64(names) > uint64(min(len(text), visibleMax)) {
			return false
		}
		c.Names, text = string(text[:names]), text[names:]
	}
	return len(text) == 0
}

// checkPipe makes fd ready to be waited for, if fd is the end of a pipe.
func checkPipe(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return fmt.Errorf("%w: the descriptor is no pipe", ErrNoAsk)
	}
	return unix.SetNonblock(fd, true)
}

// receivedFDs returns the descriptors that came with a message.
func receivedFDs(oob []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAsk, err)
	}
	var all []int
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // credentials
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
		}
		all = append(all, fds...)
	}
	return all, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// Reaches tells whether the server may read the newcomer's memory, p being its process.
func (c *Newcomer) Reaches(p Process) bool {
	var b [4]byte
	return p.Read(b[:], c.probe) == nil && binary.LittleEndian.Uint32(b[:]) == attachMagic
}

// Welcome sends the process its ring. reaches is the result of Reaches: if false, all that the process sends goes
// through the ring.
func (c *Newcomer) Welcome(r *Ring, reaches bool) error {
	var flags uint32
	if reaches {
		flags |= reachableFlag
	}
	return c.sendAnswer(0, flags, unix.UnixRights(int(r.File().Fd())))
}

// Refuse tells the process that it gets no ring. The process tells the user and goes on without
// devices.
func (c *Newcomer) Refuse(why unix.Errno) error { return c.sendAnswer(why, 0, nil) }

func (c *Newcomer) sendAnswer(why unix.Errno, flags uint32, rights []byte) error {
	b := binary.LittleEndian.AppendUint32(nil, uint32(why))
	b = binary.LittleEndian.AppendUint32(b, attachVersion)
	b = binary.LittleEndian.AppendUint64(b, uint64(flags))
	if _, _, err := c.conn.WriteMsgUnix(b, rights, nil); err != nil {
		return fmt.Errorf("answer a process: %w", err)
	}
	return nil
}

// Close closes the connection, and Exec unless Exec was set to nil.
func (c *Newcomer) Close() error {
	if c.Exec != nil {
		c.Exec.Close()
	}
	return c.conn.Close()
}
