/// Where the data of Intel HEX text lie: below and above their widest gap. Asked only when they span too much, which
/// mostly means that the text has more in it than the application: settings in a memory of their own (UICR of an nRF at
/// 0x10001000), or fuses.
struct IntelHexRegions {
    private var below: Range<UInt64> = 0..<0
    private var above: Range<UInt64> = 0..<0

    init(_ text: UnsafeRawBufferPointer) throws(IntelHexError) {
        var runs: [Range<UInt64>] = []
        var records = IntelHexRecords(text)
        while let record = try records.next() {
            let end = record.address + UInt64(records.data.count)
            if let last = runs.last, last.upperBound == record.address {
                runs[runs.count - 1] = last.lowerBound..<end
            } else if end > record.address {
                runs.append(record.address..<end)
            }
        }
        runs.sort { $0.lowerBound < $1.lowerBound }
        guard let first = runs.first, let last = runs.last else { return }
        var widest: UInt64 = 0
        var end = first.upperBound
        for run in runs {
            if run.lowerBound > end, run.lowerBound - end > widest {
                widest = run.lowerBound - end
                below = first.lowerBound..<end
                above = run.lowerBound..<last.upperBound
            }
            end = max(end, run.upperBound)
        }
    }

    func tooFarApart(line: Int) -> IntelHexError {
        guard !below.isEmpty else {
            return IntelHexError(.spanTooLarge, line: line, "more data than an image can have")
        }
        let kept = below.count >= above.count ? below : above
        let crop = "\(addressText(kept.lowerBound)) \(addressText(kept.upperBound))"
        return IntelHexError(
            .spanTooLarge, line: line,
            """
            the data from \(addressText(below.lowerBound)) to \(addressText(below.upperBound)) and those from \
            \(addressText(above.lowerBound)) to \(addressText(above.upperBound)) lie too far apart for one image
            """, hint: "cut out the application: srec_cat app.hex -intel -crop \(crop) -o image.hex -intel")
    }
}
