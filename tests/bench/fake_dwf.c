/* A simulated libdwf: the symbols and C types of WaveForms' dwf.h, and one Analog Discovery 2 whose
   output W1 is wired to its input 1. Knows what the real one refuses: a second open, stale handles,
   channels that are not there. FAKE_DWF_DEVICES says how many devices are connected (1),
   FAKE_DWF_TAKEN that another program has it open. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int HDWF;
typedef unsigned char DwfState;
typedef unsigned char FUNC;
typedef unsigned char TRIGSRC;

enum { INPUTS = 2, OUTPUTS = 2, SUPPLIES = 2, BUFFER = 8192 };
static const double CLOCK = 100e6;

static int error_code, handle, next_handle = 1, on_close;
static double in_rate = 20e6, in_range[INPUTS], level;
static int in_on[INPUTS], buffer = BUFFER, trigger, condition, polls, state;
static int out_on[OUTPUTS], out_running[OUTPUTS];
static FUNC out_shape[OUTPUTS];
static double out_hz[OUTPUTS], out_volts[OUTPUTS], out_offset[OUTPUTS], out_symmetry[OUTPUTS];
static int master;
static double io_enable[SUPPLIES], io_volts[SUPPLIES];

static int fail(int code) { error_code = code; return 0; }
static int ok(HDWF h) { return h && h == handle ? 1 : fail(0x10); }
static int counted(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

int FDwfGetLastError(int *code) { *code = error_code; return 1; }
int FDwfGetLastErrorMsg(char text[512])
{
    strcpy(text, error_code == 3 ? "Device is already opened\n" : "Invalid parameter or handle\n");
    return 1;
}
int FDwfGetVersion(char text[32]) { strcpy(text, "3.20.1"); return 1; }
int FDwfParamSet(int param, int value) { if (param == 4) on_close = value; return 1; }

int FDwfEnum(int filter, int *count) { (void)filter; *count = counted("FAKE_DWF_DEVICES", 1); return 1; }
int FDwfEnumDeviceName(int i, char text[32]) { (void)i; strcpy(text, "Analog Discovery 2"); return 1; }
int FDwfEnumSN(int i, char text[32]) { sprintf(text, "SN:210321A0000%d", i); return 1; }
int FDwfEnumDeviceIsOpened(int i, int *is) { (void)i; *is = handle || counted("FAKE_DWF_TAKEN", 0); return 1; }

int FDwfDeviceOpen(int i, HDWF *h)
{
    *h = 0;
    if (handle || counted("FAKE_DWF_TAKEN", 0)) return fail(3);
    if (i >= counted("FAKE_DWF_DEVICES", 1)) return fail(0x10);
    *h = handle = next_handle++;
    return 1;
}
int FDwfDeviceClose(HDWF h)
{
    if (!ok(h)) return 0;
    fprintf(stderr, "fake dwf closed with on_close %d\n", on_close);
    handle = 0;
    return 1;
}

int FDwfAnalogInChannelEnableSet(HDWF h, int c, int on)
{
    if (!ok(h)) return 0;
    if (c < 0 || c >= INPUTS) return fail(0x11);
    in_on[c] = on;
    return 1;
}
int FDwfAnalogInChannelRangeSet(HDWF h, int c, double volts)
{
    if (!ok(h)) return 0;
    /* The device has two ranges and takes the one that holds what is wanted. */
    in_range[c] = volts <= 5 ? 5.5 : 55;
    return 1;
}
int FDwfAnalogInChannelOffsetSet(HDWF h, int c, double volts) { (void)c; (void)volts; return ok(h); }
int FDwfAnalogInChannelFilterSet(HDWF h, int c, int filter) { (void)c; (void)filter; return ok(h); }
int FDwfAnalogInFrequencySet(HDWF h, double hz)
{
    if (!ok(h)) return 0;
    in_rate = CLOCK / ceil(CLOCK / (hz > CLOCK ? CLOCK : hz));
    return 1;
}
int FDwfAnalogInFrequencyGet(HDWF h, double *hz) { *hz = in_rate; return ok(h); }
int FDwfAnalogInBufferSizeInfo(HDWF h, int *least, int *most) { *least = 16; *most = BUFFER; return ok(h); }
int FDwfAnalogInBufferSizeSet(HDWF h, int size) { buffer = size > BUFFER ? BUFFER : size; return ok(h); }
int FDwfAnalogInAcquisitionModeSet(HDWF h, int mode) { (void)mode; return ok(h); }
int FDwfAnalogInTriggerSourceSet(HDWF h, TRIGSRC source) { trigger = source; return ok(h); }
int FDwfAnalogInTriggerAutoTimeoutSet(HDWF h, double s) { (void)s; return ok(h); }
int FDwfAnalogInTriggerChannelSet(HDWF h, int c) { (void)c; return ok(h); }
int FDwfAnalogInTriggerTypeSet(HDWF h, int type) { (void)type; return ok(h); }
int FDwfAnalogInTriggerLevelSet(HDWF h, double volts) { level = volts; return ok(h); }
int FDwfAnalogInTriggerConditionSet(HDWF h, int slope) { condition = slope; return ok(h); }
int FDwfAnalogInConfigure(HDWF h, int reconfigure, int start)
{
    (void)reconfigure;
    polls = 0;
    state = start ? 1 : 0;
    return ok(h);
}
static int is_crossed(void)
{
    return out_running[0] && fabs(level - out_offset[0]) < out_volts[0];
}
int FDwfAnalogInStatus(HDWF h, int read, DwfState *found)
{
    (void)read;
    if (!ok(h)) return 0;
    if (state == 1 && ++polls >= 3 && (trigger == 0 || is_crossed())) state = 2;
    *found = (DwfState)state;
    return 1;
}
int FDwfAnalogInStatusSamplesValid(HDWF h, int *count) { *count = state == 2 ? buffer : 0; return ok(h); }
static double wave(int o, double t)
{
    double phase = fmod(out_hz[o] * t, 1.0);
    if (!out_running[o] || !out_on[o]) return 0;
    switch (out_shape[o]) {
    case 0: return out_offset[o];
    case 1: return out_offset[o] + out_volts[o] * sin(2 * M_PI * phase);
    case 2: return out_offset[o] + (phase * 100 < out_symmetry[o] ? out_volts[o] : -out_volts[o]);
    default: return out_offset[o];
    }
}
int FDwfAnalogInStatusData(HDWF h, int c, double *data, int count)
{
    if (!ok(h)) return 0;
    if (c < 0 || c >= INPUTS || !in_on[c]) return fail(0x11);
    for (int i = 0; i < count; i++) {
        double half = in_range[c] / 2, volts = c ? 0 : wave(0, i / in_rate);
        data[i] = volts > half ? half : volts < -half ? -half : volts;
    }
    return 1;
}
int FDwfAnalogInStatusSample(HDWF h, int c, double *volts) { return FDwfAnalogInStatusData(h, c, volts, 1); }

static int out(HDWF h, int o, int node)
{
    if (!ok(h)) return 0;
    return o >= 0 && o < OUTPUTS && node == 0 ? 1 : fail(0x11);
}
int FDwfAnalogOutCount(HDWF h, int *count) { *count = OUTPUTS; return ok(h); }
int FDwfAnalogOutNodeEnableSet(HDWF h, int o, int n, int on) { if (!out(h, o, n)) return 0; out_on[o] = on; return 1; }
int FDwfAnalogOutNodeFunctionSet(HDWF h, int o, int n, FUNC f) { if (!out(h, o, n)) return 0; out_shape[o] = f; return 1; }
int FDwfAnalogOutNodeFrequencySet(HDWF h, int o, int n, double v) { if (!out(h, o, n)) return 0; out_hz[o] = v; return 1; }
int FDwfAnalogOutNodeFrequencyGet(HDWF h, int o, int n, double *v) { if (!out(h, o, n)) return 0; *v = out_hz[o]; return 1; }
int FDwfAnalogOutNodeAmplitudeSet(HDWF h, int o, int n, double v) { if (!out(h, o, n)) return 0; out_volts[o] = v; return 1; }
int FDwfAnalogOutNodeAmplitudeGet(HDWF h, int o, int n, double *v) { if (!out(h, o, n)) return 0; *v = out_volts[o]; return 1; }
int FDwfAnalogOutNodeOffsetSet(HDWF h, int o, int n, double v) { if (!out(h, o, n)) return 0; out_offset[o] = v; return 1; }
int FDwfAnalogOutNodeOffsetGet(HDWF h, int o, int n, double *v) { if (!out(h, o, n)) return 0; *v = out_offset[o]; return 1; }
int FDwfAnalogOutNodeSymmetrySet(HDWF h, int o, int n, double v) { if (!out(h, o, n)) return 0; out_symmetry[o] = v; return 1; }
int FDwfAnalogOutConfigure(HDWF h, int o, int start) { if (!out(h, o, 0)) return 0; out_running[o] = start; return 1; }
int FDwfAnalogOutReset(HDWF h, int o) { if (!out(h, o, 0)) return 0; out_running[o] = out_on[o] = 0; return 1; }
int FDwfAnalogOutStatus(HDWF h, int o, DwfState *found) { if (!out(h, o, 0)) return 0; *found = out_running[o] ? 3 : 0; return 1; }

int FDwfAnalogIOEnableSet(HDWF h, int on) { master = on; return ok(h); }
int FDwfAnalogIOEnableStatus(HDWF h, int *on) { *on = master; return ok(h); }
int FDwfAnalogIOStatus(HDWF h) { return ok(h); }
int FDwfAnalogIOChannelCount(HDWF h, int *count) { *count = 3; return ok(h); }
int FDwfAnalogIOChannelName(HDWF h, int c, char name[32], char label[16])
{
    static const char *const names[] = {"Positive Supply", "Negative Supply", "USB Monitor"};
    static const char *const labels[] = {"V+", "V-", "USB"};
    if (!ok(h)) return 0;
    strcpy(name, names[c]);
    strcpy(label, labels[c]);
    return 1;
}
int FDwfAnalogIOChannelInfo(HDWF h, int c, int *nodes) { *nodes = c < SUPPLIES ? 2 : 1; return ok(h); }
int FDwfAnalogIOChannelNodeName(HDWF h, int c, int n, char name[32], char unit[16])
{
    if (!ok(h)) return 0;
    strcpy(name, c >= SUPPLIES ? "Voltage" : n ? "Voltage" : "Enable");
    strcpy(unit, n ? "V" : "");
    return 1;
}
int FDwfAnalogIOChannelNodeSet(HDWF h, int c, int n, double v)
{
    if (!ok(h)) return 0;
    if (c >= SUPPLIES || n > 1) return fail(0x11);
    /* It rounds to what its converter can make. */
    if (n) io_volts[c] = round(v * 100) / 100; else io_enable[c] = v;
    return 1;
}
int FDwfAnalogIOChannelNodeGet(HDWF h, int c, int n, double *v) { *v = n ? io_volts[c] : io_enable[c]; return ok(h); }
int FDwfAnalogIOChannelNodeStatus(HDWF h, int c, int n, double *v) { *v = n ? io_volts[c] : io_enable[c]; return ok(h); }
