/// The search for a restarted device that may have a new address.
///
/// A *candidate* is a device with the same name and another address. The transport opens links to candidates one after another, and the
/// conversation reads their state. A candidate that is another device is rejected: this session opens no second link to it.
struct CandidateSearch: Sendable {
    /// A candidate is also rejected after this number of links that failed before its state was read.
    static let mostFailures = 2
    /// The maximum number of candidates that ``summary`` names.
    private static let mostNames = 4

    /// A candidate with an open link.
    struct Current: Sendable {
        let address: String
        /// The conversation before the link. The session continues with it if the candidate is not the device.
        let conversation: any Conversation
    }

    /// The candidate of the open link, until it is accepted or rejected.
    var current: Current?
    /// The number of failed attempts in a row to connect to the device.
    var misses = 0
    /// The last error of an attempt that found neither the device nor a candidate.
    private var missing: String?
    private var failures: [String: Int] = [:]
    private var rejections: [(address: String, reason: String)] = []

    var rejected: Set<String> { Set(rejections.map(\.address)) }

    mutating func missed(_ error: LinkError) {
        misses += 1
        missing = error.detail
    }

    mutating func reject(_ address: String, _ reason: String) { rejections.append((address, reason)) }

    /// Records a link that failed before the candidate's state was read.
    mutating func failed(_ address: String, _ error: LinkError) {
        failures[address, default: 0] += 1
        if failures[address] == Self.mostFailures { reject(address, "could not be read: \(error.detail)") }
    }

    /// The result of the search without success, as the end of an error's context.
    var summary: String {
        let missing = missing.map { ": \($0)" } ?? ""
        guard !rejections.isEmpty else { return missing }
        let list = rejections.prefix(Self.mostNames).map { "\($0.address) \($0.reason)" }.joined(separator: "; ")
        let more = rejections.count > Self.mostNames ? "; …" : ""
        let count = rejections.count
        let devices = "\(count) other \(count == 1 ? "device" : "devices") with its name \(count == 1 ? "was" : "were")"
        return "\(missing); \(devices) seen and left alone: \(list)\(more)"
    }
}
