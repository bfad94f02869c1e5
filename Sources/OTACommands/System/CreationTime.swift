import Glibc
import OTAFirmware

/// When a bundle is said to be made: `SOURCE_DATE_EPOCH` where it is set (https://reproducible-builds.org), so that the
/// same image gives the same bundle; else now.
enum CreationTime {
    /// Unix seconds.
    static func now() throws(Failure) -> UInt64 {
        guard let value = getenv("SOURCE_DATE_EPOCH") else { return UInt64(clamping: time(nil)) }
        let text = String(cString: value)
        // Digits alone: the standard initializer would also take a plus sign.
        let isNumber = !text.isEmpty && text.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
        guard isNumber, let seconds = UInt64(text), seconds <= Manifest.latestCreationTime else {
            throw Failure.usage(
                "SOURCE_DATE_EPOCH is '\(text)', which is not a number of seconds since 1970 that a bundle can have",
                hint: "set it so: export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct); or unset it")
        }
        return seconds
    }
}
