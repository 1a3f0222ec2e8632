// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package localsock has the common code for sockets between processes of a node: SOCK_SEQPACKET
// sockets in folders, packets that carry descriptors, and the credentials of the process at the
// other end.
//
// To receive and to close a descriptor can take for ever: the file may be of FUSE or of a dead NFS
// server. So a daemon calls Receive only on connections with a trusted other end;
// users may connect only to package nodesocket's door, which never receives descriptors.
package localsock
