// The least distance of kernels: launched one after the other, replayed by a graph, and between two events.
// sass empty: EXIT >= 1

#include "micro.cuh"

extern "C" __global__ void empty() {}

MICRO(launch) {
  constexpr int kRow = 400, kRepeats = 20;
  const auto row = [] {
    for (int i = 0; i < kRow; ++i) empty<<<1, 32>>>();
  };
  row();
  micro::finish("empty");
  const auto each = [](std::vector<double> times) {
    for (double& t : times) t /= kRow;
    return times;
  };
  micro::constant("launch_interval_stream", "", "us", each(kit::event_times_us(kRepeats, nullptr, row)),
                  "empty kernels one after the other; the host may be the limit");

  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  KIT_CHECK(cudaStreamCreate(&stream));
  KIT_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kRow; ++i) empty<<<1, 32, 0, stream>>>();
  KIT_CHECK(cudaStreamEndCapture(stream, &graph));
  KIT_CHECK(cudaGraphInstantiate(&ready, graph, 0));
  const auto replay = [&] { KIT_CHECK(cudaGraphLaunch(ready, cudaStreamLegacy)); };
  replay();
  micro::finish("graph of empty kernels");
  micro::constant("launch_interval_graph", "", "us", each(kit::event_times_us(kRepeats, nullptr, replay)),
                  "launch.kernel_us + launch.gap_us");
  micro::constant("event_distance_empty_kernel", "", "us", kit::event_times_us(100, [] { kit::flush_l2(); }, [] { empty<<<1, 32>>>(); }),
                  "what event timing adds to a kernel that does nothing");
  KIT_CHECK(cudaGraphExecDestroy(ready));
  KIT_CHECK(cudaGraphDestroy(graph));
  KIT_CHECK(cudaStreamDestroy(stream));
}
