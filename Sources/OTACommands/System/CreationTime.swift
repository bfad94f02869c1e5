import Glibc
import OTAFirmware

/// The creation time of a bundle: `SOURCE_DATE_EPOCH` if it is set, else the current time. With `SOURCE_DATE_EPOCH` the same image
/// gives the same bundle (https://reproducible-builds.org).
enum CreationTime {
    /// The creation time as Unix seconds.
    ///
    /// - Throws: `Failure`: `usage` for an invalid `SOURCE_DATE_EPOCH`.
    static func now() throws(Failure) -> UInt64 {
        guard let value = getenv("SOURCE_DATE_EPOCH") else { return UInt64(clamping: time(nil)) }
        let text = String(cString: value)
        // Only digits: the standard initializer also accepts a plus sign.
        let isNumber = !text.isEmpty && text.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
        guard isNumber, let seconds = UInt64(text), seconds <= Manifest.latestCreationTime else {
            throw Failure.usage(
                "SOURCE_DATE_EPOCH is '\(text)'; expected Unix seconds from 0 to \(Manifest.latestCreationTime)",
                hint: "use export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct), or unset it")
        }
        return seconds
    }
}
