import OTAUpdate

/// The statistics of an upload. All byte counts refer to bytes of the image.
struct TransferSummary: Encodable, Sendable {
    let resumedFrom, imageBytes, sentBytes, resentBytes: Int
    /// The sizes in bytes; nil: no chunk was sent.
    let chunkSize, mtu: Int?
    let flushes, gaps, disconnects: Int
    let seconds: Double
    /// The average rate; nil: the duration is 0.
    let bytesPerSecond: Double?
    /// The maximum rate of a simulated link without loss; nil: a real link.
    let linkBoundBytesPerSecond: Double?
    /// `bytesPerSecond` divided by `linkBoundBytesPerSecond`.
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

    /// The sentences for the user; empty if nothing was sent.
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
