/// The part of a device address after `sim:`, in the form `NAME?item=value&item=value`. The name and each item are optional.
///
/// The address contains the name of a virtual device, the properties of the simulated radio, and the faults (docs/command-line.md, "Device
/// addresses").
public struct VirtualDeviceAddress: Sendable, Equatable {
    /// The clock of the simulation.
    public enum Pace: String, Sendable, CaseIterable {
        case real
        /// The simulated time of a ``VirtualTime``. The simulation does not wait in real time.
        case virtual
    }

    public var name: String?
    public var radio = RadioModel()
    public var faults = FaultPlan()
    /// The battery level in per cent, 0...100. It replaces the level in the device's `device.json`. Nil keeps the level in `device.json`.
    public var battery: Int?
    /// The speed of the device's flash in written bytes per second. Nil means that flash operations take no time.
    public var flashSpeed: Int?
    public var pace = Pace.real
    public var seed: UInt64 = 1

    /// Parses the part of a device address after `sim:`.
    ///
    /// - Throws: `badAddress` for an invalid name, an unknown item, a repeated item, or an invalid value. The message for an unknown item
    ///   lists the known items.
    public init(parsing body: some StringProtocol) throws(VirtualDeviceError) {
        let parts = body.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        if let name = parts.first, !name.isEmpty {
            guard VirtualDeviceStore.isName(name) else {
                throw Self.error(
                    "'\(name)' is not the name of a virtual device; expected \(VirtualDeviceStore.nameRule)")
            }
            self.name = String(name)
        }
        guard parts.count > 1, !parts[1].isEmpty else { return }
        var seen: Set<Item> = []
        for text in parts[1].split(separator: "&", omittingEmptySubsequences: false) {
            let halves = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let item = halves.first.flatMap({ Item(rawValue: String($0)) }) else {
                let known = Item.allCases.map(\.rawValue).joined(separator: ", ")
                throw Self.error(
                    "unknown item '\(halves.first ?? "")' in the device address; expected one of \(known)")
            }
            guard seen.insert(item).inserted else {
                throw Self.error("\(item.rawValue) appears twice in the device address")
            }
            guard halves.count > 1, take(item, Substring(halves[1])) else {
                throw Self.error("\(item.rawValue)=\(halves.count > 1 ? halves[1] : "") is not \(item.rule)")
            }
        }
    }

    private enum Item: String, CaseIterable {
        case mtu, interval
        case perEvent = "per-event"
        case loss
        case dropAt = "drop-at"
        case goneAt = "gone-at"
        case gap
        case resetAt = "reset-at"
        case battery, flash, pace, seed

        /// The rule for the item's values, as text for the user.
        var rule: String {
            switch self {
            case .mtu: "a number of bytes from 23 to 517"
            case .interval: "a time from 7.5ms to 0.5s, such as 15ms or 0.015s"
            case .perEvent: "a number of packets from 1 to 100"
            case .loss: "a probability from 0 to less than 1, such as 0.1"
            case .dropAt, .resetAt: "a fraction of the image from 0 to 1, such as 0.4, or several separated by commas"
            case .goneAt: "a fraction of the image from 0 to 1, such as 0.4"
            case .gap: "a fraction of the chunks from 0 to 1, such as 0.01"
            case .battery: "a percentage from 0 to 100"
            case .flash: "a number of kB/s from 1 to 100000"
            case .pace: "real or virtual"
            case .seed: "a number from 0 to 18446744073709551615"
            }
        }
    }

    /// Parses the value of an item and stores the value. Returns false if the text is not a valid value.
    private mutating func take(_ item: Item, _ text: Substring) -> Bool {
        switch item {
        case .mtu: Self.set(&radio.mtu, Self.integer(text, 23...517))
        case .interval: Self.set(&radio.interval, Self.duration(text, .microseconds(7500) ... .milliseconds(500)))
        case .perEvent: Self.set(&radio.perEvent, Self.integer(text, 1...100))
        case .loss: Self.set(&radio.loss, Self.fraction(text).flatMap { $0 < 1 ? $0 : nil })
        case .dropAt: Self.set(&faults.dropAt, Self.fractions(text))
        case .goneAt: Self.set(&faults.goneAt, Self.fraction(text))
        case .gap: Self.set(&faults.gap, Self.fraction(text))
        case .resetAt: Self.set(&faults.resetAt, Self.fractions(text))
        case .battery: Self.set(&battery, Self.integer(text, 0...100))
        case .flash: Self.set(&flashSpeed, Self.integer(text, 1...100_000).map { 1000 * $0 })
        case .pace: Self.set(&pace, Pace(rawValue: String(text)))
        case .seed: Self.set(&seed, Self.isDigits(text) ? UInt64(text) : nil)
        }
    }

    private static func set<Value>(_ target: inout Value, _ value: Value?) -> Bool {
        guard let value else { return false }
        target = value
        return true
    }

    private static func set<Value>(_ target: inout Value?, _ value: Value?) -> Bool {
        target = value
        return value != nil
    }

    private static func isDigits(_ text: Substring) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    private static func integer(_ text: Substring, _ range: ClosedRange<Int>) -> Int? {
        guard isDigits(text), let value = Int(text), range.contains(value) else { return nil }
        return value
    }

    /// Parses digits with at most one decimal point. `Double` alone would also accept a sign and an exponent.
    private static func decimal(_ text: Substring) -> Double? {
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        return parts.allSatisfy(isDigits) ? Double(text) : nil
    }

    private static func fraction(_ text: Substring) -> Double? {
        decimal(text).flatMap { $0 <= 1 ? $0 : nil }
    }

    private static func fractions(_ text: Substring) -> [Double]? {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false).map { fraction($0) }
        return parts.contains(nil) ? nil : parts.compactMap { $0 }
    }

    private static func duration(_ text: Substring, _ range: ClosedRange<Duration>) -> Duration? {
        let unit = text.hasSuffix("ms") ? "ms" : text.hasSuffix("s") ? "s" : nil
        guard let unit, let number = decimal(text.dropLast(unit.utf8.count)), number < 1e6 else { return nil }
        // Without the rounding to whole microseconds, 7.5ms and 0.0075s could differ.
        let microseconds = (number * (unit == "ms" ? 1e3 : 1e6)).rounded()
        let duration = Duration.microseconds(Int64(microseconds))
        return range.contains(duration) ? duration : nil
    }

    private static func error(_ context: String) -> VirtualDeviceError { VirtualDeviceError(.badAddress, context) }
}
