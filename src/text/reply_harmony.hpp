// Replies of gpt-oss: messages, each with a channel and maybe a recipient in its header.
#pragma once

#include <memory>

#include "text/reply.hpp"

namespace orrery::text {

std::unique_ptr<ReplyParser> make_harmony_parser(const ReplyOptions& options);

}  // namespace orrery::text
