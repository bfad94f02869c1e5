import OTAUpdate

/// The statistics of an upload. `resumedFrom`, `imageBytes`, `sentBytes` and `resentBytes` count only image bytes, without headers.
struct TransferSummary: Encodable, Sendable {
    let resumedFrom, imageBytes, sentBytes, resentBytes: Int
    /// The length of the longest chunk and the MTU of the link, in bytes. `chunkSize` is nil if no chunk was sent. `mtu` is nil on a
    /// transport without an MTU.
    let chunkSize, mtu: Int?
    let flushes, gaps, disconnects: Int
    let seconds: Double
    /// The average rate of the upload; nil if its duration is 0.
    let bytesPerSecond: Double?
    /// The maximum rate of a simulated link if no packet is lost; nil for a real link.
    let linkBoundBytesPerSecond: Double?
    /// `bytesPerSecond` divided by `linkBoundBytesPerSecond`; nil if one of them is nil.
    let efficiency: Double?

    init(_ transfer: TransferReport, linkBound: Double?) {
        resumedFrom = transfer.resumedFrom
        imageBytes = transfer.imageBytes
        sentBytes = transfer.sentBytes
        resentBytes = transfer.resentBytes
        chunkSize = transfer.chunkSize > 0 ? transfer.chunkSize : nil
        mtu = transfer.mtu > 0 ? transfer.mtu : nil
        flushes = transfer.flushes
        gaps = transfer.gaps
        disconnects = transfer.disconnects
        seconds = Figures.rounded(transfer.duration.seconds)
        let rate = transfer.bytesPerSecond
        bytesPerSecond = rate.map(Figures.rounded)
        linkBoundBytesPerSecond = linkBound.map(Figures.rounded)
        efficiency = linkBound.flatMap { bound in rate.map { Figures.rounded($0 / bound) } }
    }

    /// The sentences for the user; an empty array if nothing was sent.
    var sentences: [String] {
        guard sentBytes > 0 else { return [] }
        let what = resumedFrom > 0 ? "Resumed at byte \(resumedFrom) of \(imageBytes); the rest" : "\(imageBytes) bytes"
        var sentence = "\(what) took \(Figures.time(seconds))"
        if let bytesPerSecond { sentence += ": \(Figures.rate(bytesPerSecond))" }
        if let efficiency {
            sentence += ", \(Figures.decimal(efficiency * 100, places: 1)) % of the link's maximum"
        }
        var lines = [sentence + "."]
        let troubles = [Self.count(gaps, "gap"), Self.count(disconnects, "lost link")].compactMap { $0 }
        if !troubles.isEmpty {
            lines.append("\(Figures.bytes(resentBytes)) sent again after \(troubles.joined(separator: " and ")).")
        }
        return lines
    }

    private static func count(_ number: Int, _ what: String) -> String? {
        number == 0 ? nil : "\(number) \(what)\(number == 1 ? "" : "s")"
    }
}
