// acme-gateway for a Cortex-M4: reads measurements of wireless sensors as text lines, and prints their statistics.
// Unlike the other two samples, most of its bytes are machine code: newlib's printf, strtod, sorting, time and mathematics.
// It is built three times: with VERSION_TEXT "1.0.0"; with "1.0.1" and RANGE_CHECK; and with "1.1.0", RANGE_CHECK and FORECAST.

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { SENSORS = 16, SAMPLES = 64 };

struct sensor {
    char name[24];
    double samples[SAMPLES];
    unsigned count, next;
    double humidity, altitude;
};

static struct sensor sensors[SENSORS];
static unsigned sensor_count;
static volatile uint32_t *const serial = (volatile uint32_t *)0x40002000;

// ---- The functions that newlib needs ----

int _write(int file, const char *bytes, int count) {
    (void)file;
    for (int index = 0; index < count; ++index) {
        while ((serial[0] & 1u) == 0) {}
        serial[1] = (uint8_t)bytes[index];
    }
    return count;
}

int _read(int file, char *bytes, int count) {
    (void)file;
    (void)count;
    while ((serial[0] & 2u) == 0) {}
    bytes[0] = (char)serial[2];
    return 1;
}

static char heap[16 << 10];

void *_sbrk(ptrdiff_t change) {
    static size_t used;
    if (change < 0 || used + (size_t)change > sizeof heap) {
        errno = ENOMEM;
        return (void *)-1;
    }
    used += (size_t)change;
    return heap + used - (size_t)change;
}

int _close(int file) { (void)file; return -1; }
int _fstat(int file, struct stat *status) { (void)file; status->st_mode = S_IFCHR; return 0; }
int _isatty(int file) { (void)file; return 1; }
int _lseek(int file, int offset, int whence) { (void)file; (void)offset; (void)whence; return 0; }
int _getpid(void) { return 1; }
int _kill(int process, int signal) { (void)process; (void)signal; return -1; }
void _exit(int status) { (void)status; for (;;) {} }
int _gettimeofday(struct timeval *now, void *zone) { (void)zone; (void)now; return -1; }

// ---- Statistics ----

static int ascending(const void *first, const void *second) {
    const double left = *(const double *)first, right = *(const double *)second;
    return (left > right) - (left < right);
}

static double median(const struct sensor *sensor) {
    double sorted[SAMPLES];
    memcpy(sorted, sensor->samples, sizeof sorted);
    qsort(sorted, sensor->count, sizeof sorted[0], ascending);
    return sensor->count % 2 ? sorted[sensor->count / 2]
                             : (sorted[sensor->count / 2 - 1] + sorted[sensor->count / 2]) / 2;
}

static double deviation(const struct sensor *sensor, double *mean) {
    double sum = 0, squares = 0;
    for (unsigned index = 0; index < sensor->count; ++index) sum += sensor->samples[index];
    *mean = sum / sensor->count;
    for (unsigned index = 0; index < sensor->count; ++index) squares += pow(sensor->samples[index] - *mean, 2);
    return sqrt(squares / sensor->count);
}

/// Magnus' formula, degrees Celsius.
static double dew_point(double temperature, double humidity) {
    const double ratio = log(humidity / 100) + 17.62 * temperature / (243.12 + temperature);
    return 243.12 * ratio / (17.62 - ratio);
}

/// The barometric formula, hectopascals.
static double pressure(double altitude, double temperature) {
    return 1013.25 * exp(-altitude * 9.80665 * 0.0289644 / (8.31447 * (temperature + 273.15)));
}

static double direction(double north, double east) { return fmod(atan2(east, north) * 180 / M_PI + 360, 360); }

/// The elevation of the sun in degrees, with the approximation of the Astronomical Almanac.
static double sun_elevation(time_t now, double latitude, double longitude) {
    const double days = difftime(now, 946728000) / 86400;
    const double mean = fmod(357.528 + 0.9856003 * days, 360) * M_PI / 180;
    const double ecliptic =
        fmod(280.460 + 0.9856474 * days + 1.915 * sin(mean) + 0.020 * sin(2 * mean), 360) * M_PI / 180;
    const double obliquity = (23.439 - 0.0000004 * days) * M_PI / 180;
    const double ascension = atan2(cos(obliquity) * sin(ecliptic), cos(ecliptic));
    const double declination = asin(sin(obliquity) * sin(ecliptic));
    const double sidereal = fmod(18.697374558 + 24.06570982441908 * days, 24) * M_PI / 12 + longitude * M_PI / 180;
    return asin(sin(latitude) * sin(declination) + cos(latitude) * cos(declination) * cos(sidereal - ascension)) * 180
           / M_PI;
}

static void print_sun(char *arguments) {
    struct tm when = {0};
    if (sscanf(arguments, "%d-%d-%d %d:%d", &when.tm_year, &when.tm_mon, &when.tm_mday, &when.tm_hour, &when.tm_min)
        != 5) {
        puts("error: sun YYYY-MM-DD HH:MM");
        return;
    }
    when.tm_year -= 1900;
    when.tm_mon -= 1;
    const time_t now = mktime(&when);
    char text[40];
    strftime(text, sizeof text, "%A, %d %B %Y %H:%M", &when);
    printf("%s: the sun is at %.2f degrees\n", text, sun_elevation(now, 0.84, 13.4));
}

#ifdef FORECAST
// ---- The functions of version 1.1.0 ----

/// The largest component of the sensor's samples, in cycles per window.
static unsigned spectrum(const struct sensor *sensor, double *amplitude) {
    unsigned largest = 0;
    *amplitude = 0;
    for (unsigned cycles = 1; cycles <= sensor->count / 2; ++cycles) {
        double real = 0, imaginary = 0;
        for (unsigned index = 0; index < sensor->count; ++index) {
            const double angle = 2 * M_PI * cycles * index / sensor->count;
            real += sensor->samples[index] * cos(angle);
            imaginary -= sensor->samples[index] * sin(angle);
        }
        const double found = 2 * hypot(real, imaginary) / sensor->count;
        if (found > *amplitude) {
            *amplitude = found;
            largest = cycles;
        }
    }
    return largest;
}

/// A forecast by a line of least squares, and the probability of a value above the limit.
static double forecast(const struct sensor *sensor, double limit, double *probability) {
    double xy = 0, xx = 0, mean = 0;
    const double spread = deviation(sensor, &mean), middle = (sensor->count - 1) / 2.0;
    for (unsigned index = 0; index < sensor->count; ++index) {
        xy += (index - middle) * (sensor->samples[index] - mean);
        xx += (index - middle) * (index - middle);
    }
    const double value = mean + (xx > 0 ? xy / xx : 0) * (sensor->count - middle);
    *probability = spread > 0 ? 0.5 * erfc((limit - value) / (spread * M_SQRT2)) : value > limit;
    return value;
}

static void print_forecast(const struct sensor *sensor) {
    double amplitude, probability;
    const unsigned cycles = spectrum(sensor, &amplitude);
    const double value = forecast(sensor, 30, &probability);
    printf("%-24s next %.2f, above 30 in %.1f %%, %u cycles of %.3g\n", sensor->name, value, 100 * probability, cycles,
           amplitude);
}
#endif

// ---- Commands ----

static struct sensor *find(const char *name) {
    for (unsigned index = 0; index < sensor_count; ++index)
        if (strncmp(sensors[index].name, name, sizeof sensors[index].name) == 0) return &sensors[index];
    if (sensor_count == SENSORS) return NULL;
    struct sensor *const sensor = &sensors[sensor_count++];
    strncpy(sensor->name, name, sizeof sensor->name - 1);
    return sensor;
}

static void add(char *arguments) {
    char *rest, *name = strtok_r(arguments, " ", &rest), *end;
    struct sensor *const sensor = name ? find(name) : NULL;
    if (!sensor) {
        puts("error: no such sensor");
        return;
    }
    const double value = strtod(rest, &end);
    if (end == rest) {
        printf("error: '%s' is no number\n", rest);
        return;
    }
#ifdef RANGE_CHECK
    if (!isfinite(value) || value < -90 || value > 150) {
        printf("error: %g is out of range\n", value);
        return;
    }
#endif
    sensor->humidity = *end ? strtod(end, &end) : 50;
    sensor->altitude = *end ? strtod(end, NULL) : 0;
    sensor->samples[sensor->next] = value;
    sensor->next = (sensor->next + 1) % SAMPLES;
    if (sensor->count < SAMPLES) ++sensor->count;
}

static void print(const struct sensor *sensor) {
    double mean;
    const double spread = deviation(sensor, &mean);
    printf("%-24s n=%u mean=%.3f median=%.3f deviation=%.3g dew point=%.2f pressure=%.1f\n", sensor->name,
           sensor->count, mean, median(sensor), spread, dew_point(mean, sensor->humidity),
           pressure(sensor->altitude, mean));
}

static void wind(char *arguments) {
    double north, east;
    if (sscanf(arguments, "%lf %lf", &north, &east) != 2) {
        puts("error: wind NORTH EAST");
        return;
    }
    printf("%.1f m/s from %.0f degrees\n", sqrt(north * north + east * east), direction(north, east));
}

int main(void) {
    char line[128];
    puts("acme-gateway " VERSION_TEXT);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = 0;
        if (strncmp(line, "add ", 4) == 0) add(line + 4);
        else if (strncmp(line, "wind ", 5) == 0) wind(line + 5);
        else if (strncmp(line, "sun ", 4) == 0) print_sun(line + 4);
        else if (strcmp(line, "print") == 0)
            for (unsigned index = 0; index < sensor_count; ++index) print(&sensors[index]);
#ifdef FORECAST
        else if (strcmp(line, "forecast") == 0)
            for (unsigned index = 0; index < sensor_count; ++index) print_forecast(&sensors[index]);
#endif
        else if (strcmp(line, "version") == 0) puts(VERSION_TEXT);
        else printf("error: unknown command '%s'\n", line);
    }
}

// ---- Start ----

extern uint32_t dataStart[], dataEnd[], dataLoad[], bssStart[], bssEnd[], stackTop[];

__attribute__((noreturn)) void reset(void) {
    memcpy(dataStart, dataLoad, (size_t)((char *)dataEnd - (char *)dataStart));
    memset(bssStart, 0, (size_t)((char *)bssEnd - (char *)bssStart));
    main();
    for (;;) {}
}

static void halt(void) { for (;;) {} }

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
    stackTop, (void *)reset, (void *)halt, (void *)halt, (void *)halt, (void *)halt, (void *)halt,
};
