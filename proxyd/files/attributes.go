// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes are extended attributes by their names.
type Attributes map[Name][]byte

// MarshalJSON implements json.Marshaler: package json alone would take names for UTF-8, though they are bytes.
func (a Attributes) MarshalJSON() ([]byte, error) {
	named := make(map[string][]byte, len(a))
	for name, value := range a {
		text, err := name.MarshalText()
		if err != nil {
			return nil, err
		}
		named[string(text)] = value
	}
	return json.Marshal(named)
}

// countBytes returns the memory that names and values take.
func (a Attributes) countBytes() (size int) {
	for name, value := range a {
		size += 64 + len(name) + len(value)
	}
	return size
}

// checkNames refuses attributes that a user could not have set.
func (a Attributes) checkNames() error {
	for name := range a {
		if !wantedXattr(name) {
			return fmt.Errorf("extended attribute %.80q: not a user's", name)
		}
	}
	return nil
}

// Limits of attributes. The kernel bounds the length of a value and of the list of names, and a file may have thousands
// of the longest values.
const (
	maxXattr      = 64 << 10 // bytes of a value, and of the list of a file's names
	maxFileXattrs = 8 << 20  // bytes of the attributes of a file
)

// maxStateXattrs bounds the attributes of all files of a State. A test changes it.
var maxStateXattrs = 16 << 20

var errManyXattrs = fmt.Errorf("its extended attributes have more than %d MiB", maxFileXattrs>>20)

const (
	accessList  = "system.posix_acl_access"
	defaultList = "system.posix_acl_default"
)

// wantedXattr reports whether a user can set the attribute, and the kernel uses the attribute only to decide which
// users may read.
func wantedXattr(name Name) bool {
	return isUserXattr(name) || name == accessList || name == defaultList
}

// isUserXattr reports whether the kernel asks for the file's permissions, as for content, when the attribute is read or set.
func isUserXattr(name Name) bool { return strings.HasPrefix(string(name), "user.") }

// xattrNames returns the names of the wanted attributes of a file. list is Listxattr, or Llistxattr.
func xattrNames(path string, list func(string, []byte) (int, error)) ([]Name, error) {
	b := make([]byte, maxXattr)
	n, err := list(path, b)
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil // a file system without attributes
	}
	if err != nil {
		return nil, fmt.Errorf("extended attributes: %w", err)
	}
	var names []Name
	for _, name := range bytes.Split(b[:n], []byte{0}) {
		if wantedXattr(Name(name)) {
			names = append(names, Name(name))
		}
	}
	return names, nil
}

// readXattrs returns the values of a file's attributes. get is Getxattr, or Lgetxattr.
func readXattrs(path string, names []Name, get func(string, string, []byte) (int, error)) (Attributes, error) {
	all, size, value := Attributes{}, 0, []byte(nil)
	for _, name := range names {
		if value == nil {
			value = make([]byte, maxXattr)
		}
		n, err := get(path, string(name), value)
		if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("extended attribute %.80q: %w", name, err)
		}
		if size += n; size > maxFileXattrs {
			return nil, errManyXattrs
		}
		all[name] = bytes.Clone(value[:n])
	}
	return all, nil
}

// readOwnXattrs returns the attributes of a file or folder of the caller's. If the file's mode
// does not let the owner read the file, the kernel refuses user attributes to the owner: the mode is another meanwhile.
func readOwnXattrs(path string, mode uint32) (Attributes, error) {
	names, err := xattrNames(path, unix.Llistxattr)
	if err != nil {
		return nil, err
	}
	if mode&0o400 != 0 || !slices.ContainsFunc(names, isUserXattr) {
		return readXattrs(path, names, unix.Lgetxattr)
	}
	if err := unix.Chmod(path, mode|0o400); err != nil {
		return nil, err
	}
	all, err := readXattrs(path, names, unix.Lgetxattr)
	return all, errors.Join(err, unix.Chmod(path, mode))
}

// cannotKeep reports whether an error of restoreXattrs says that the file's file system cannot have such attributes.
func cannotKeep(err error) bool {
	return isTolerable(err) || errors.Is(err, errManyXattrs) ||
		errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ERANGE) || errors.Is(err, unix.EINVAL)
}

// restoreXattrs gives a file or folder of the caller's the attributes want, and no others. The mode of the file may be
// another afterwards. At no moment does the file's group have permissions that were an access list's.
func restoreXattrs(path string, mode uint32, want Attributes) error {
	names, err := xattrNames(path, unix.Llistxattr)
	if err != nil {
		return err
	}
	sorted := slices.Sorted(maps.Keys(want))
	if mode&0o600 != 0o600 && slices.ContainsFunc(slices.Concat(names, sorted), isUserXattr) {
		if err := unix.Chmod(path, mode|0o600); err != nil {
			return err
		}
		mode |= 0o600
	}
	now, err := readXattrs(path, names, unix.Lgetxattr)
	if err != nil {
		return err
	}
	for name := range now {
		if _, stays := want[name]; stays {
			continue
		}
		if name == accessList && mode&0o070 != 0 {
			if err := unix.Chmod(path, mode&^0o070); err != nil {
				return err
			}
		}
		if err := unix.Lremovexattr(path, string(name)); err != nil {
			return fmt.Errorf("extended attribute %.80q: %w", name, err)
		}
	}
	for _, name := range slices.Backward(sorted) { // an access list, which changes the mode, comes after the user's attributes
		value, ok := now[name]
		if ok && bytes.Equal(value, want[name]) {
			continue
		}
		if err := unix.Lsetxattr(path, string(name), want[name], 0); err != nil {
			return fmt.Errorf("extended attribute %.80q: %w", name, err)
		}
	}
	return nil
}
