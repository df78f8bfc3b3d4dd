// When memory that work on a GPU may still use is given back.
#pragma once

namespace warploom {

// Calls `release(thing)`, where `thing` is memory, or holds some, that work on `device` may still use. That device is
// current. It is waited for before; but while a graph is captured in this thread, waiting for the device would end the
// capture with an error, whatever its mode and stream: `thing` is kept then. It is released when, after the capture,
// something else is released, a plan is made, or memory is short.
void release_after_work(int device, void* thing, void (*release)(void*)) noexcept;

// Releases what was kept, except where a graph is captured still.
void release_kept() noexcept;

// Whether a graph is captured in this thread, by the stream that is current there and on the current device. CUDA
// cannot be asked whether any stream is being captured: frameworks know their current one. False as long as nobody says
// how to find out; captures in other threads are not known.
bool graph_is_captured() noexcept;
void find_captures_by(bool (*query)() noexcept) noexcept;

}  // namespace warploom
