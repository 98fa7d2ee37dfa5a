"""The nouns: English singular and plural, German gender, genitive and plural, and a class that verbs select.

One line a noun: ``english[/plural] | gender Singular genitive Plural``. The genitive is an ending (``-s``, ``-es``,
``-`` for none) or, for weak nouns, the ending of all forms but the nominative singular (``+n``, ``+en``). An
underscore joins the two words of an English compound whose German counterpart is one word. A plural ``-`` marks a
mass noun.
"""

NOUNS: dict[str, str] = {
    "kin": """
        friend | m Freund -es Freunde
        brother | m Bruder -s Brüder
        sister | f Schwester - Schwestern
        mother | f Mutter - Mütter
        father | m Vater -s Väter
        son | m Sohn -es Söhne
        daughter | f Tochter - Töchter
        uncle | m Onkel -s Onkel
        aunt | f Tante - Tanten
        grandmother | f Großmutter - Großmütter
        grandfather | m Großvater -s Großväter
        cousin | m Cousin -s Cousins
        neighbor | m Nachbar +n Nachbarn
        colleague | m Kollege +n Kollegen
        boss/bosses | m Chef -s Chefs
    """,
    "person": """
        man/men | m Mann -es Männer
        woman/women | f Frau - Frauen
        child/children | n Kind -es Kinder
        boy | m Junge +n Jungen
        girl | n Mädchen -s Mädchen
        teacher | m Lehrer -s Lehrer
        doctor | m Arzt -es Ärzte
        student | m Student +en Studenten
        cook | m Koch -es Köche
        baker | m Bäcker -s Bäcker
        farmer | m Bauer +n Bauern
        police_officer | m Polizist +en Polizisten
        lawyer | m Anwalt -s Anwälte
        judge | m Richter -s Richter
        engineer | m Ingenieur -s Ingenieure
        nurse | f Krankenschwester - Krankenschwestern
        waiter | m Kellner -s Kellner
        guest | m Gast -es Gäste
        customer | m Kunde +n Kunden
        tourist | m Tourist +en Touristen
        artist | m Künstler -s Künstler
        singer | m Sänger -s Sänger
        writer | m Schriftsteller -s Schriftsteller
        journalist | m Journalist +en Journalisten
        soldier | m Soldat +en Soldaten
        king | m König -s Könige
        queen | f Königin - Königinnen
        mayor | m Bürgermeister -s Bürgermeister
        gardener | m Gärtner -s Gärtner
        actor | m Schauspieler -s Schauspieler
        musician | m Musiker -s Musiker
        scientist | m Wissenschaftler -s Wissenschaftler
        visitor | m Besucher -s Besucher
        bus_driver | m Busfahrer -s Busfahrer
        taxi_driver | m Taxifahrer -s Taxifahrer
        soccer_player | m Fußballspieler -s Fußballspieler
        pilot | m Pilot +en Piloten
        president | m Präsident +en Präsidenten
        thief/thieves | m Dieb -es Diebe
        secretary | f Sekretärin - Sekretärinnen
        prince | m Prinz +en Prinzen
        tailor | m Schneider -s Schneider
    """,
    "animal": """
        dog | m Hund -es Hunde
        cat | f Katze - Katzen
        horse | n Pferd -es Pferde
        cow | f Kuh - Kühe
        bird | m Vogel -s Vögel
        pig | n Schwein -s Schweine
        sheep/sheep | n Schaf -s Schafe
        mouse/mice | f Maus - Mäuse
        bear | m Bär +en Bären
        lion | m Löwe +n Löwen
        rabbit | n Kaninchen -s Kaninchen
        duck | f Ente - Enten
        elephant | m Elefant +en Elefanten
        monkey | m Affe +n Affen
        fox | m Fuchs -es Füchse
    """,
    "food": """
        cheese/- | m Käse -s -
        butter/- | f Butter - -
        apple | m Apfel -s Äpfel
        tomato/tomatoes | f Tomate - Tomaten
        pear | f Birne - Birnen
        sandwich | n Sandwich -s Sandwiches
    """,
    "side": """
        honey/- | m Honig -s -
        salad | m Salat -s Salate
        potato_salad | m Kartoffelsalat -s Kartoffelsalate
    """,
    "dish": """
        meat/- | n Fleisch -es -
        rice/- | m Reis -es -
        egg | n Ei -s Eier
        soup | f Suppe - Suppen
        potato/potatoes | f Kartoffel - Kartoffeln
        sausage | f Wurst - Würste
        vegetable_soup | f Gemüsesuppe - Gemüsesuppen
        fish/- | m Fisch -es -
    """,
    "pastry": """
        bread/- | n Brot -es -
        cake | m Kuchen -s Kuchen
        birthday_cake | m Geburtstagskuchen -s Geburtstagskuchen
        apple_pie | m Apfelkuchen -s Apfelkuchen
    """,
    "drink": """
        coffee/- | m Kaffee -s -
        tea/- | m Tee -s -
        water/- | n Wasser -s -
        milk/- | f Milch - -
        beer/- | n Bier -s -
        wine/- | m Wein -s -
        apple_juice/- | m Apfelsaft -es -
        red_wine/- | m Rotwein -s -
        orange_juice/- | m Orangensaft -es -
        mineral_water/- | n Mineralwasser -s -
    """,
    "clothing": """
        coat | m Mantel -s Mäntel
        dress | n Kleid -es Kleider
        shirt | n Hemd -es Hemden
        jacket | f Jacke - Jacken
        shoe | m Schuh -s Schuhe
        skirt | m Rock -es Röcke
        sweater | m Pullover -s Pullover
        winter_coat | m Wintermantel -s Wintermäntel
        summer_dress | n Sommerkleid -es Sommerkleider
        leather_jacket | f Lederjacke - Lederjacken
        rain_jacket | f Regenjacke - Regenjacken
    """,
    "headgear": """
        hat | m Hut -es Hüte
    """,
    "vehicle": """
        car | n Auto -s Autos
        bus | m Bus -ses Busse
        bicycle | n Fahrrad -es Fahrräder
        truck | m Lastwagen -s Lastwagen
        motorcycle | n Motorrad -es Motorräder
        sports_car | m Sportwagen -s Sportwagen
        police_car | n Polizeiauto -s Polizeiautos
        fire_truck | n Feuerwehrauto -s Feuerwehrautos
        school_bus | m Schulbus -ses Schulbusse
    """,
    "transport": """
        train | m Zug -es Züge
        ship | n Schiff -es Schiffe
        boat | n Boot -es Boote
    """,
    "document": """
        book | n Buch -es Bücher
        newspaper | f Zeitung - Zeitungen
        article | m Artikel -s Artikel
        poem | n Gedicht -s Gedichte
        novel | m Roman -s Romane
        history_book | n Geschichtsbuch -es Geschichtsbücher
        cookbook | n Kochbuch -es Kochbücher
        diary | n Tagebuch -es Tagebücher
    """,
    "paper": """
        letter | m Brief -es Briefe
        report | m Bericht -es Berichte
        postcard | f Postkarte - Postkarten
        contract | m Vertrag -es Verträge
        love_letter | m Liebesbrief -es Liebesbriefe
        message | f Nachricht - Nachrichten
    """,
    "object": """
        key | m Schlüssel -s Schlüssel
        ball | m Ball -es Bälle
        watch | f Uhr - Uhren
        bottle | f Flasche - Flaschen
        picture | n Bild -es Bilder
        cup | f Tasse - Tassen
        plate | m Teller -s Teller
        umbrella | m Regenschirm -s Regenschirme
        map | f Karte - Karten
        ring | m Ring -es Ringe
        doll | f Puppe - Puppen
        wallet | m Geldbeutel -s Geldbeutel
        coffee_cup | f Kaffeetasse - Kaffeetassen
        wine_glass | n Weinglas -es Weingläser
        city_map | m Stadtplan -s Stadtpläne
        house_key | m Hausschlüssel -s Hausschlüssel
        computer_game | n Computerspiel -s Computerspiele
        wedding_ring | m Ehering -s Eheringe
        mirror | m Spiegel -s Spiegel
        candle | f Kerze - Kerzen
        gift | n Geschenk -s Geschenke
    """,
    "device": """
        lamp | f Lampe - Lampen
        camera | f Kamera - Kameras
        phone | n Telefon -s Telefone
        computer | m Computer -s Computer
        cell_phone | n Handy -s Handys
        radio | n Radio -s Radios
        washing_machine | f Waschmaschine - Waschmaschinen
    """,
    "container": """
        bag | f Tasche - Taschen
        box | f Kiste - Kisten
        suitcase | m Koffer -s Koffer
        school_bag | f Schultasche - Schultaschen
    """,
    "tool": """
        knife/knives | n Messer -s Messer
        hammer | m Hammer -s Hämmer
        spoon | m Löffel -s Löffel
        fork | f Gabel - Gabeln
        pen | m Kugelschreiber -s Kugelschreiber
        pencil | m Bleistift -s Bleistifte
        rope | n Seil -s Seile
        brush | f Bürste - Bürsten
        kitchen_knife/kitchen_knives | n Küchenmesser -s Küchenmesser
        stick | m Stock -es Stöcke
    """,
    "furniture": """
        table | m Tisch -es Tische
        chair | m Stuhl -s Stühle
        bed | n Bett -es Betten
        sofa | n Sofa -s Sofas
        shelf/shelves | n Regal -s Regale
        desk | m Schreibtisch -es Schreibtische
        armchair | m Sessel -s Sessel
        kitchen_table | m Küchentisch -es Küchentische
        garden_chair | m Gartenstuhl -s Gartenstühle
        bookcase | m Bücherschrank -s Bücherschränke
    """,
    "opening": """
        door | f Tür - Türen
        window | n Fenster -s Fenster
        gate | n Tor -es Tore
        front_door | f Haustür - Haustüren
        garden_gate | n Gartentor -es Gartentore
        kitchen_window | n Küchenfenster -s Küchenfenster
        cellar_door | f Kellertür - Kellertüren
    """,
    "building": """
        house | n Haus -es Häuser
        school | f Schule - Schulen
        church | f Kirche - Kirchen
        hospital | n Krankenhaus -es Krankenhäuser
        hotel | n Hotel -s Hotels
        museum | n Museum -s Museen
        restaurant | n Restaurant -s Restaurants
        library | f Bibliothek - Bibliotheken
        factory | f Fabrik - Fabriken
        castle | n Schloss -es Schlösser
        theater | n Theater -s Theater
        bakery | f Bäckerei - Bäckereien
        train_station | m Bahnhof -s Bahnhöfe
        office_building | n Bürogebäude -s Bürogebäude
        flower_shop | m Blumenladen -s Blumenläden
        supermarket | m Supermarkt -es Supermärkte
        university | f Universität - Universitäten
    """,
    "room": """
        kitchen | f Küche - Küchen
        room | n Zimmer -s Zimmer
        bathroom | n Badezimmer -s Badezimmer
        bedroom | n Schlafzimmer -s Schlafzimmer
        living_room | n Wohnzimmer -s Wohnzimmer
        office | n Büro -s Büros
        cellar | m Keller -s Keller
        garage | f Garage - Garagen
        dining_room | n Esszimmer -s Esszimmer
        waiting_room | n Wartezimmer -s Wartezimmer
    """,
    "outdoors": """
        garden | m Garten -s Gärten
        park | m Park -s Parks
        forest | m Wald -es Wälder
        village | n Dorf -es Dörfer
        city | f Stadt - Städte
        yard | m Hof -es Höfe
        vineyard | m Weinberg -s Weinberge
        mountain_village | n Bergdorf -es Bergdörfer
        old_town | f Altstadt - Altstädte
    """,
    "spot": """
        bridge | f Brücke - Brücken
        square | m Platz -es Plätze
        street | f Straße - Straßen
        roof | n Dach -es Dächer
        balcony | m Balkon -s Balkone
        playground | m Spielplatz -es Spielplätze
        field | n Feld -es Felder
        island | f Insel - Inseln
        main_street | f Hauptstraße - Hauptstraßen
        soccer_field | m Fußballplatz -es Fußballplätze
    """,
    "plant": """
        tree | m Baum -es Bäume
        flower | f Blume - Blumen
        rose | f Rose - Rosen
        apple_tree | m Apfelbaum -s Apfelbäume
        bush | m Busch -es Büsche
    """,
    "journey": """
        trip | f Reise - Reisen
        class_trip | m Klassenausflug -s Klassenausflüge
    """,
    "occasion": """
        lesson | f Unterrichtsstunde - Unterrichtsstunden
        concert | n Konzert -s Konzerte
        party | f Feier - Feiern
        meeting | f Besprechung - Besprechungen
        exam | f Prüfung - Prüfungen
        wedding | f Hochzeit - Hochzeiten
        game | n Spiel -s Spiele
        birthday_party | f Geburtstagsfeier - Geburtstagsfeiern
        conference | f Konferenz - Konferenzen
        dance_class | m Tanzkurs -es Tanzkurse
    """,
    "topic": """
        problem | n Problem -s Probleme
        question | f Frage - Fragen
        idea | f Idee - Ideen
        plan | m Plan -s Pläne
        answer | f Antwort - Antworten
        mistake | m Fehler -s Fehler
        rule | f Regel - Regeln
        decision | f Entscheidung - Entscheidungen
        word | n Wort -es Wörter
        song | n Lied -es Lieder
        movie | m Film -s Filme
    """,
    "tale": """
        story | f Geschichte - Geschichten
        secret | n Geheimnis -ses Geheimnisse
        dream | m Traum -es Träume
        fairy_tale | n Märchen -s Märchen
    """,
    "part": """
        color/- | f Farbe - -
    """,
    "measure": """
        price/- | m Preis -es -
        size/- | f Größe - -
        value/- | m Wert -es -
        age/- | n Alter -s -
    """,
}

UNIONS: dict[str, tuple[str, ...]] = {
    "human": ("person", "kin"),
    "being": ("person", "kin", "animal"),
    "edible": ("food", "dish", "pastry", "side"),
    "meal": ("food", "dish", "pastry", "side", "drink"),
    "solid": ("food", "pastry"),
    "traffic": ("vehicle", "transport"),
    "readable": ("document", "paper"),
    "small": ("object", "container", "tool", "document", "paper"),
    "thing": ("object", "container", "device", "tool", "document", "paper", "clothing", "headgear"),
    "goods": (
        "object", "container", "device", "document", "clothing", "headgear", "vehicle", "furniture", "tool", "pastry",
    ),
    "belonging": ("object", "device", "document", "clothing", "headgear", "vehicle"),
    "wearable": ("clothing", "headgear"),
    "event": ("occasion", "journey"),
    "visible": ("person", "kin", "animal", "vehicle", "transport", "object", "building", "plant"),
    "machine": ("vehicle", "transport", "device"),
    "washable": ("clothing", "vehicle"),
    "cleanable": ("room", "opening"),
    "inside": ("building", "room", "outdoors"),
    "home": ("building", "outdoors"),
    "sight": ("building", "outdoors", "spot"),
    "subject_matter": ("topic", "tale", "occasion", "journey"),
    "account": ("topic", "tale"),
    "portrait": ("animal", "building", "plant", "person"),
    "rentable": ("room", "vehicle"),
    "admired": ("building", "kin", "person", "plant"),
    "feature": ("part", "measure"),
    "whole": ("building", "vehicle", "transport", "furniture"),
}  # fmt: skip
"""Classes that verbs and prepositions ask for and that are made of several others."""
