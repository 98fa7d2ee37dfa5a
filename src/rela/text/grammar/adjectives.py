"""The adjectives: English with its comparative, German with attributive stem and comparative, and what they go with.

One line an adjective: ``english[/comparative] | german[/stem] comparative | domains``. Without a comparative of its
own an English adjective takes *more*; a German ``-`` marks adjectives that are not compared.
"""

DOMAINS: dict[str, str] = {
    "person": "p", "kin": "p", "animal": "a", "food": "f", "dish": "f", "pastry": "f", "drink": "d", "side": "f",
    "transport": "v", "clothing": "c", "headgear": "c", "vehicle": "v", "document": "r", "paper": "r",
    "object": "o", "device": "o", "container": "o", "tool": "o", "furniture": "o", "opening": "o", "building": "b",
    "room": "b", "outdoors": "b", "spot": "b", "plant": "l", "occasion": "e", "journey": "e", "topic": "t",
    "tale": "t", "part": "-", "measure": "-",
}  # fmt: skip
"""For each class of nouns the letter by which adjectives name it."""

ADJECTIVES = """
    old/older | alt älter | pacvobl
    young/younger | jung jünger | pa
    new/newer | neu neuer | cvorbt
    big/bigger | groß größer | acvobfl
    small/smaller | klein kleiner | pacvobfl
    beautiful | schön schöner | cobtal
    ugly/uglier | hässlich hässlicher | cvob
    expensive | teuer/teur teurer | cvofd
    cheap/cheaper | billig billiger | cvofd
    friendly/friendlier | freundlich freundlicher | pa
    hungry/hungrier | hungrig hungriger | pa
    tired | müde/müd müder | pa
    happy/happier | glücklich glücklicher | p
    sad/sadder | traurig trauriger | pt
    rich/richer | reich reicher | p
    poor/poorer | arm ärmer | p
    famous | berühmt berühmter | pb
    smart/smarter | klug klüger | pa
    lazy/lazier | faul fauler | pa
    nervous | nervös nervöser | pa
    sick/sicker | krank kränker | pal
    healthy/healthier | gesund gesünder | pafl
    strong/stronger | stark stärker | pa
    polite/politer | höflich höflicher | p
    brave/braver | mutig mutiger | pa
    shy/shyer | schüchtern schüchterner | pa
    curious | neugierig neugieriger | pa
    angry/angrier | wütend wütender | pa
    quiet/quieter | ruhig ruhiger | pab
    lonely/lonelier | einsam einsamer | p
    honest | ehrlich ehrlicher | p
    dangerous | gefährlich gefährlicher | av
    wild/wilder | wild wilder | a
    thirsty/thirstier | durstig durstiger | pa
    fresh/fresher | frisch frischer | fd
    delicious | lecker leckerer | fd
    sweet/sweeter | süß süßer | fd
    hot/hotter | heiß heißer | fd
    cold/colder | kalt kälter | fdb
    warm/warmer | warm wärmer | fdc
    dark/darker | dunkel/dunkl dunkler | cb
    bright/brighter | hell heller | b
    modern | modern moderner | bvo
    red | rot - | cvol
    blue | blau - | cvo
    green | grün - | cvo
    white | weiß - | cvola
    black | schwarz - | cvoa
    yellow | gelb - | cvol
    brown | braun - | cvoa
    heavy/heavier | schwer schwerer | o
    broken | kaputt - | vo
    dirty/dirtier | schmutzig schmutziger | cvob
    clean/cleaner | sauber sauberer | cvob
    fast/faster | schnell schneller | va
    slow/slower | langsam langsamer | va
    long/longer | lang länger | cret
    short/shorter | kurz kürzer | cret
    interesting | interessant interessanter | retb
    boring | langweilig langweiliger | ret
    important | wichtig wichtiger | ret
    difficult | schwierig schwieriger | et
    simple/simpler | einfach einfacher | t
    good/better | gut besser | pfdret
    bad/worse | schlecht schlechter | fdret
    strange/stranger | seltsam seltsamer | pretb
    funny/funnier | lustig lustiger | pret
    wonderful | wunderbar wunderbarer | eb
    elegant | elegant eleganter | cv
    tall/taller | hoch/hoh höher | l
    wet/wetter | nass nasser | ca
    dry/drier | trocken trockener | cl
    useful | nützlich nützlicher | or
    valuable | wertvoll wertvoller | or
    popular | beliebt beliebter | brep
    comfortable | bequem bequemer | cv
"""

UNFIT: dict[str, str] = {
    "long": "shoe hat problem idea mistake decision secret rule plan",
    "short": "shoe hat problem idea mistake decision secret rule plan",
    "sad": "problem plan mistake rule idea",
    "beautiful": "problem question mistake rule decision",
    "sweet": "cheese butter egg meat rice sausage potato fish soup vegetable_soup salad potato_salad sandwich water "
    "mineral_water beer",
    "hot": "cheese butter honey salad potato_salad apple pear tomato beer wine red_wine apple_juice orange_juice "
    "mineral_water",
    "fresh": "wine red_wine",
    "difficult": "mistake secret dream story fairy_tale party birthday_party wedding",
    "tall": "flower rose",
}
"""For some adjectives the nouns of their domains that they do not go with."""
