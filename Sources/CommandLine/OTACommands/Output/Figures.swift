/// Formats numbers with units as text for the user.
package enum Figures {
    /// Formats a number with `places` decimal places, at most 6. Halves are rounded away from zero.
    static func decimal(_ value: Double, places: Int) -> String {
        guard value.isFinite, abs(value) < 1e12 else { return "?" }
        var scale = 1.0
        for _ in 0..<places { scale *= 10 }
        let scaled = Int64((abs(value) * scale).rounded())
        let (whole, fraction) = scaled.quotientAndRemainder(dividingBy: Int64(scale))
        let sign = value < 0 && scaled > 0 ? "-" : ""
        guard places > 0 else { return "\(sign)\(whole)" }
        let digits = String(fraction)
        return "\(sign)\(whole).\(String(repeating: "0", count: places - digits.count))\(digits)"
    }

    /// Formats a number of things. Examples: `1 device`, `2 devices`.
    package static func count(_ number: Int, _ what: String) -> String { "\(number) \(what)\(number == 1 ? "" : "s")" }

    /// Formats a size in bytes. Examples: `512 bytes`, `63.5 kB`, `1.20 MB`.
    static func bytes(_ count: Int) -> String {
        switch count {
        case 1: "1 byte"
        case ..<1000: "\(count) bytes"
        case ..<1_000_000: "\(decimal(Double(count) / 1e3, places: 1)) kB"
        default: "\(decimal(Double(count) / 1e6, places: 2)) MB"
        }
    }

    /// Formats a rate. Example: `94.8 kB/s`.
    static func rate(_ bytesPerSecond: Double) -> String { "\(decimal(bytesPerSecond / 1e3, places: 1)) kB/s" }

    /// Formats a duration in seconds. Examples: `1.08 s`, `42 s`, `3 min 20 s`.
    static func time(_ seconds: Double) -> String {
        guard seconds.isFinite, seconds < 1e9 else { return "?" }
        if seconds < 9.995 { return "\(decimal(seconds, places: 2)) s" }
        let whole = Int(seconds.rounded())
        return whole < 60 ? "\(whole) s" : "\(whole / 60) min \(whole % 60) s"
    }

    /// Formats the remaining time. Example: `12 s left`. The text is empty for 10⁹ s and more.
    static func remaining(_ seconds: Double) -> String {
        guard seconds.isFinite, seconds < 1e9 else { return "" }
        let whole = Int(seconds.rounded(.up))
        return whole < 60 ? "\(whole) s left" : "\(whole / 60) min \(whole % 60) s left"
    }

    /// Rounds a number to 3 decimal places, for JSON output.
    static func rounded(_ value: Double) -> Double { (value * 1000).rounded() / 1000 }
}

extension Duration {
    var seconds: Double { self / .seconds(1) }
}
