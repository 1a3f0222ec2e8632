// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package enter

import (
	"os"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/passwd"
)

const (
	rootPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	userPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
)

// login is a user's session right after logging in.
type login struct{ passwd.User }

func (l login) buildEnvironment(daemon bool) []string {
	path := userPath
	if l.UID == 0 || daemon {
		path = rootPath
	}
	return []string{"PATH=" + path, "HOME=" + l.Home, "USER=" + l.Name, "LOGNAME=" + l.Name, "SHELL=" + l.Shell, "LANG=C.UTF-8"}
}

func (l login) makeCredential() *syscall.Credential {
	return &syscall.Credential{Uid: l.UID, Gid: l.GID, Groups: l.Groups}
}

// startDirectory returns the folder in which the command starts.
func (l login) startDirectory(asked string) string {
	for _, d := range []string{asked, l.Home} {
		if st, err := os.Stat(d); d != "" && err == nil && st.IsDir() {
			return d
		}
	}
	return "/"
}
