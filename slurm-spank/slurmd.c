// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "contexts.h"

#include <stdint.h>
#include <sys/types.h>

#include "config.h"
#include "log.h"
#include "options.h"
#include "proxyd.h"

/*
 * How long an epilog waits for proxyd. Slurm does not give the node to other jobs meanwhile; if the
 * time is over, proxyd removes the rest of the job later.
 */
enum { END_SECONDS = 60 };

void slurmd_init(int argc, char **argv)
{
	struct config config;

	/*
	 * Logged once for the administrator; jobs get the error when they ask for the
	 * plugin.
	 */
	config_read(&config, argc, argv);
	if (config.wrong[0])
		sing_error("%s", config.wrong);
}

void slurmd_job_over(spank_t sp, int argc, char **argv)
{
	static struct message request;
	static struct reply reply;
	struct config config;
	char why[WHY_SIZE];
	const char *reason;
	uint32_t job = 0;
	uid_t uid = (uid_t)-1;

	if (!options_on_in_epilog(sp) || spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS)
		return;
	spank_get_item(sp, S_JOB_UID, &uid);
	config_read(&config, argc, argv);
	if (config.wrong[0])
		return;
	message_begin(&request, SING_END);
	message_add(&request, SING_KEY_VERSION, SING_WIRE_VERSION);
	message_add_number(&request, SING_KEY_JOB, job);
	message_add_number(&request, SING_KEY_UID, uid);
	if (proxyd_ask(config.socket, config.run_unprotected ? 0 : config.retry, END_SECONDS, -1, &request, &reply, why)) {
		sing_error("job %u: what is left of it here cannot be removed now: %s", job, why);
		return;
	}
	reply_close(&reply);
	reason = message_get(&reply.message, SING_KEY_REASON);
	if (message_verb(&reply.message)[0] == SING_NO[0])
		sing_error("job %u: what is left of it here cannot be removed: %s", job, reason ? reason : "no reason given");
}
