"""The machine and its peaks."""
from __future__ import annotations


def machine(data):
    document, device = data.kernels, data.profile["device"]
    start, end = (document["gpu"][when][0] for when in ("at_start", "at_end"))
    return {
        "gpu": start["name"], "driver": start["driver"], "cuda": document["ladder"][0]["cuda"],
        "multiprocessors": round(device["multiprocessors"]), "clock_mhz": device["clock_hz"] * 1e-6,
        "clock_max_mhz": start["sm_clock_max_mhz"], "clock_end_mhz": end["sm_clock_mhz"],
        "memory_clock_mhz": end["memory_clock_mhz"], "power_limit_w": start["power_limit_w"],
        "power_end_w": document["gpu"]["at_end"][0]["power_w"],
        "temperature_end_c": document["gpu"]["at_end"][0]["temperature_c"],
        "processor": document["machine"]["processor"], "processors": document["machine"]["processors"],
        "system": document["machine"]["system"], "python": document["machine"]["python"],
        "torch": document["torch"]["torch"].partition("+")[0], "ncu": data.profile["ncu"]["version"],
        "commit": document["git"]["commit"][:10], "state": "with changes" if document["git"]["dirty"] else "clean",
        "compilers": "; ".join(document["compilers"]), "flags_cpp": document["build"]["cpp"],
        "flags_cu": document["build"]["cu"], "runs": document["runs"],
    }


def peaks(data):
    device, sgemm = data.profile["device"], data.kernels["sgemm"]
    peak = device["peak_flop_per_second"] * 1e-12
    return {"tflops": peak, "dram_tb_per_second": device["peak_dram_bytes_per_second"] * 1e-12,
            "corner_flop_per_byte": device["peak_flop_per_second"] / device["peak_dram_bytes_per_second"],
            "sgemm": {"tflops": sgemm["tflops"], "begin_tflops": sgemm["begin"]["tflops"],
                      "end_tflops": sgemm["end"]["tflops"], "size": sgemm["size"],
                      "of_peak_pct": 100 * sgemm["tflops"] / peak}}
