// SIGHUP: the configuration file is read again, for what can change while the daemon runs.
//
// Called by main; the reload itself runs on the loop's thread. [[root]], [limits] and the log level are taken
// over together; streams that are open stay open. A mistake in the file is logged and changes nothing. What
// else differs is named in the log and needs a restart. A daemon without a configuration file ends with
// SIGHUP, as programs do.
#pragma once

#include "daemon/broker/server.h"
#include "daemon/options.h"
#include "daemon/pool/event_loop.h"
#include "daemon/service/manager.h"

namespace sl {

// Before the first thread is started: SIGHUP then waits for reload_on_hangup.
void block_hangups();

// All live as long as the loop runs. The descriptor, too.
Result<UniqueFd> reload_on_hangup(EventLoop& loop, const Options& options, Server& server,
                                  ServiceManager& manager);

}  // namespace sl
